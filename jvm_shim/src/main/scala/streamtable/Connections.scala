package org.apache.spark.sql.streamtable

import java.util.concurrent.ConcurrentHashMap

import py4j.{ClientServerConnection, Py4JPythonClient, PythonClient}

/**
 * The connections to Python that threads of this JVM have opened. py4j keeps one for each thread, with a thread of Python's at its
 * other end, also when the thread has ended; servers run each statement in a thread of its own.
 */
private[streamtable] final class Connections(client: Py4JPythonClient) {

  private val opened = new ConcurrentHashMap[Thread, ClientServerConnection]()

  /** Remembers the connection of this thread, and closes those of threads that have ended. */
  def tidy(): Unit = client match {
    case client: PythonClient =>
      val own = client.getPerThreadConnection
      if (own != null && own.isInitiatedFromClient) opened.put(Thread.currentThread, own)
      opened.forEach { (thread, connection) =>
        if (!thread.isAlive && opened.remove(thread, connection)) {
          connection.shutdown()
          client.connectionStopped(connection) // it forgets it
        }
      }
    case _ => // Without a connection for each thread (PYSPARK_PIN_THREAD=false) py4j does so itself.
  }
}
