package org.apache.spark.sql.hive.streamtable

import java.util.concurrent.{Callable, ExecutionException, Executors}

import com.google.common.util.concurrent.Uninterruptibles.getUninterruptibly

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.hive.HiveExternalCatalog
import org.apache.spark.sql.hive.client.{HiveClientImpl, IsolatedClientLoader}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamtable.Patches

/**
 * Hive's metastore client, out of reach of those who cancel statements.
 *
 * Thrift and Spark Connect cancel a statement by an interrupt of its thread. An interrupt within the embedded metastore breaks a connection
 * that its pool of eight then counts as used for ever. After eight of them everybody waits for one, and holds the catalog's lock
 * meanwhile. So one thread makes all calls, one after the other as the catalog's lock makes them anyway. Nobody interrupts that thread. A
 * thread that waits for it sees its own interrupt when the call has ended.
 */
object Metastore {

  /** Has a thread of its own make all calls of the session's catalog from now on. A catalog without Hive stays as it is. */
  def shield(session: SparkSession): Unit =
    if (Patches.isOn("metastore thread"))
      session.asInstanceOf[ClassicSession].sharedState.externalCatalog.unwrapped match {
        case catalog: HiveExternalCatalog =>
          catalog.client match { // also has the lazy val computed, whose field is set below
            case _: Shielded =>
            case client: HiveClientImpl =>
              val field = classOf[HiveExternalCatalog].getDeclaredField("client")
              field.setAccessible(true)
              field.set(catalog, new Shielded(client.clientLoader, new Calls))
            case _ => // a Hive of the user's own jars, which is not embedded
          }
        case _ =>
      }
}

/** A client like those that `loader` makes, whose calls are made by the thread of `calls`. */
private class Shielded(loader: IsolatedClientLoader, calls: Calls)
    extends HiveClientImpl(
      loader.version,
      Option(loader.hadoopConf.get("hive.metastore.warehouse.dir")),
      loader.sparkConf,
      loader.hadoopConf,
      loader.config,
      loader.baseClassLoader,
      loader) {

  override def withHiveState[A](call: => A): A = calls.make(super.withHiveState(call))

  override def newSession(): HiveClientImpl = new Shielded(loader, calls)
}

/** One thread that makes calls for others, with the settings of their sessions. */
private class Calls {

  @volatile private var own: Thread = _

  private val executor = Executors.newSingleThreadExecutor { (work: Runnable) =>
    own = new Thread(work, "streamtable metastore")
    own.setDaemon(true)
    own
  }

  def make[A](call: => A): A =
    if (Thread.currentThread eq own) call // one call within another
    else {
      val settings = SQLConf.get
      val work: Callable[A] = () => SQLConf.withExistingConf(settings)(call)
      try getUninterruptibly(executor.submit(work))
      catch { case e: ExecutionException => throw e.getCause }
    }
}
