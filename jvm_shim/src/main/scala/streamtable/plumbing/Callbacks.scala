package org.apache.spark.sql.streamtable

import java.net.Socket
import java.util.concurrent.TimeUnit.SECONDS

import javax.net.SocketFactory

import py4j._

/**
 * The way to the objects of the Python process that listens on `port` and knows `secret`. What they are given and answer are objects of
 * the gateway of `server`, whose own way of calling back asks for no secret.
 */
final class Callbacks(server: GatewayServer, port: Int, secret: String)
    extends Gateway(null, Callbacks.client(server, port, secret)) {

  private[streamtable] val connections = new Connections(getCallbackClient, server)

  override def getReturnObject(value: Object): ReturnObject = server.getGateway.getReturnObject(value)

  override def getObject(id: String): Object = server.getGateway.getObject(id)

  /** An object of this interface whose methods are those of Python's object `id`. */
  def implementation(interface: String, id: String): Object = {
    val loader = getClass.getClassLoader
    createProxy(loader, Array(Class.forName(interface, true, loader)), id)
  }
}

private object Callbacks {

  private def client(server: GatewayServer, port: Int, secret: String): Py4JPythonClient = {
    val address = GatewayServer.defaultAddress
    server.getCallbackClient match {
      case _: PythonClient => new PromptClient(server, port, secret)
      case _ => new CallbackClient(port, address, secret) // PYSPARK_PIN_THREAD=false
    }
  }

  /** A connection for each thread, which sends at once. */
  private final class PromptClient(server: GatewayServer, port: Int, secret: String)
      extends PythonClient(
        server.getGateway,
        null,
        port,
        GatewayServer.defaultAddress,
        CallbackClient.DEFAULT_MIN_CONNECTION_TIME,
        SECONDS,
        SocketFactory.getDefault,
        null,
        true,
        GatewayServer.DEFAULT_READ_TIMEOUT,
        secret) {

    override protected def startClientSocket(): Socket = {
      val socket = super.startClientSocket()
      socket.setTcpNoDelay(true)
      socket
    }
  }
}
