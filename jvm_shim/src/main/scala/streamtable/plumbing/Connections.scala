package org.apache.spark.sql.streamtable

import java.util.{List => JavaList}
import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import py4j._

import org.apache.spark.internal.Logging

/**
 * The connections to Python, one for each thread that uses it. py4j keeps the connections that threads of this JVM have opened,
 * even after a thread has ended. Each has a thread of Python's at its other end, and servers run each statement in a thread of its
 * own.
 *
 * py4j lets TCP decide when an answer is sent. The end of an answer of more than 8 KB then waits until Python acknowledges the
 * beginning, which Linux delays by 40 ms. So each connection is told to send at once.
 */
private[streamtable] final class Connections(client: Py4JPythonClient, server: GatewayServer) {

  private val opened = new ConcurrentHashMap[Thread, ClientServerConnection]()

  Connections.makePrompt(server)

  /** Whether this thread does what Python asked for, other than as a part of an answer to this JVM. */
  def ofPython: Boolean = server.getCallbackClient match {
    case ofPython: PythonClient => ofPython.getPerThreadConnection != null
    case _ => false
  }

  /** Remembers the connection of this thread, and closes those of threads that have ended. */
  def tidy(): Unit = client match {
    case client: PythonClient =>
      val own = client.getPerThreadConnection
      if (own != null) opened.put(Thread.currentThread, own)
      opened.forEach { (thread, connection) =>
        if (!thread.isAlive && opened.remove(thread, connection)) {
          connection.shutdown()
          client.connectionStopped(connection) // it forgets it
        }
      }
    case _ => // PYSPARK_PIN_THREAD=false: py4j does so itself.
  }
}

private[streamtable] object Connections extends Logging {

  /** Makes connections that Python has opened, or opens from now on, send at once. */
  private def makePrompt(server: Py4JJavaServer): Unit = if (Patches.isOn("prompt connections")) {
    server.addListener(Prompt)
    try { // py4j tells nobody of those that are there
      val present = classOf[GatewayServer].getDeclaredField("connections")
      present.setAccessible(true)
      present.get(server).asInstanceOf[JavaList[Py4JServerConnection]].forEach(Prompt.connectionStarted(_))
    } catch {
      case NonFatal(e) =>
        logWarning("py4j keeps its connections elsewhere; long answers of those that are there wait", e)
    }
  }

  private object Prompt extends DefaultGatewayServerListener {
    override def connectionStarted(connection: Py4JServerConnection): Unit = {
      val socket = connection.getSocket
      if (!socket.isClosed) socket.setTcpNoDelay(true)
    }
  }
}
