package org.apache.spark.sql.streamtable

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files
import java.util.concurrent.FutureTask
import java.util.concurrent.TimeUnit.MILLISECONDS

import scala.concurrent.duration._
import scala.util.Using

import org.apache.spark.SparkContext
import org.apache.spark.api.python.Py4JServer
import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd}
import org.apache.spark.sql.internal.SQLConf

/** The Python process that answers in a JVM which no Python started: spark-sql, spark-shell, a job in Scala. */
private[streamtable] object PythonChild {

  private val interpreter = "spark.streamtable.python"
  private val patience = "spark.streamtable.python.startSeconds"
  private val advice = s"set $interpreter to a Python that has streamtable installed (pip install streamtable)"
  private val startedByPython = "_PYSPARK_DRIVER_CONN_INFO_PATH" // pyspark's launcher gives its JVM this variable

  /** Whether such a child answers, or has answered: then statements may have come before it. */
  @volatile private[streamtable] var serves = false

  /** Returns the handler in a child, which is started when there is none; it ends with the application or the JVM. */
  def registered(): Registered = synchronized {
    Handlers.registered.getOrElse {
      if (sys.env.contains(startedByPython))
        throw Handlers.notEnabled(
          "no Python process answers stream table statements here",
          "call streamtable.enable(spark) in the Python driver",
          None)
      start(SparkContext.getOrCreate())
    }
  }

  private def start(context: SparkContext): Registered = {
    val python = context.getConf.get(interpreter, sys.env.getOrElse("PYSPARK_PYTHON", "python3"))
    val within = SQLConf.get
      .getConfString(patience, "60")
      .toIntOption
      .getOrElse(throw Handlers.notEnabled(s"$patience is no whole number", s"SET $patience = 60", None))
    val server = gateway(context)
    val output = Files.createTempFile("streamtable-python-", ".log").toFile // which the owner alone can read
    output.deleteOnExit()
    val builder = new ProcessBuilder(python, "-m", "streamtable.hosts.jvm_child")
      .redirectErrorStream(true)
      .redirectOutput(output)
    builder.environment.put("PYSPARK_GATEWAY_PORT", server.getListeningPort.toString)
    builder.environment.put("PYSPARK_GATEWAY_SECRET", server.secret)
    builder.environment.put("PYSPARK_PIN_THREAD", "true")
    builder.environment.put("PYTHONSAFEPATH", "1") // else it imports what somebody put into the current folder
    builder.environment.put("STREAMTABLE_JAR_VERSION", version)
    val child =
      try builder.start()
      catch {
        case e: IOException =>
          server.shutdown()
          throw Handlers.notEnabled(s"$python, which is to answer the statement, does not start", advice, Some(e))
      }
    sys.addShutdownHook(child.destroy())
    context.addSparkListener(new SparkListener {
      override def onApplicationEnd(end: SparkListenerApplicationEnd): Unit = child.destroy()
    })
    val deadline = within.seconds.fromNow
    while (Handlers.registered.isEmpty && deadline.hasTimeLeft() && !child.waitFor(20, MILLISECONDS)) {}
    val ended = if (child.isAlive) s"did not begin to answer within $within seconds ($patience)" else "ended at once"
    if (Handlers.registered.isEmpty) child.destroyForcibly()
    // A child that is killed is replaced by the next statement.
    child.onExit.thenRun { () =>
      Handlers.unset()
      server.shutdown()
    }
    CheckedSettings.forget()
    serves = true
    Handlers.registered.getOrElse {
      val said = new String(Files.readAllBytes(output.toPath), UTF_8).linesIterator.toSeq.takeRight(5).mkString("\n")
      throw Handlers.notEnabled(s"$python, which is to answer the statement, $ended:\n$said", advice, None)
    }
  }

  /** The version of the package that this jar belongs to; jvm_child compares its own. */
  private def version: String =
    Using.resource(getClass.getResourceAsStream("version"))(file => new String(file.readAllBytes(), UTF_8))

  /** Opens a gateway, on daemon threads as that which opens it: a job whose main ends must end, also without spark.stop(). */
  private def gateway(context: SparkContext): Py4JServer = {
    val opening = new FutureTask(() => {
      val server = new Py4JServer(context.getConf)
      server.start()
      server
    })
    val opener = new Thread(opening)
    opener.setDaemon(true)
    opener.start()
    opening.get()
  }
}
