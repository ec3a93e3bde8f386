package org.apache.spark.sql.streamtable

import javax.security.sasl.AuthenticationException

import scala.jdk.CollectionConverters._

import org.apache.hive.service.CompositeService
import org.apache.hive.service.auth.PasswdAuthenticationProvider
import org.apache.hive.service.cli.thrift.ThriftBinaryCLIService
import org.apache.thrift.server.TServer
import org.apache.thrift.transport.{TSocket, TTransport, TTransportFactory}

/** What Python implements over py4j: it knows the users. */
trait Passwords {
  def accepts(user: String, password: String, address: String): Boolean
}

/** The registered users. */
object Passwords {

  @volatile private[streamtable] var current: Option[Passwords] = None

  /** Lets `passwords` decide about all logins from now on. */
  def set(passwords: Passwords): Unit = current = Option(passwords)
}

/** HiveServer2 makes one by its name (`hive.server2.custom.authentication.class`) and asks it at each login. */
class PasswordCheck extends PasswdAuthenticationProvider {

  override def Authenticate(user: String, password: String): Unit =
    // Logins have threads of their own, which end as well and leave their connections.
    try
      if (!Passwords.current.exists(_.accepts(user, password, Addresses.current)))
        throw new AuthenticationException("the user is unknown, or the password is not the user's")
    finally Handlers.registered.foreach(_.connections.tidy())
}

/** From where the login comes that this thread checks: HiveServer2 does not tell who checks passwords. */
object Addresses {

  private val known = new ThreadLocal[String]

  private[streamtable] def current: String = Option(known.get).getOrElse("")

  /** Remembers the addresses of those who connect to a HiveServer2 from now on. */
  def remember(hive: CompositeService): Unit =
    hive.getServices.asScala.collect { case thrift: ThriftBinaryCLIService => thrift }.foreach { thrift =>
      val server = Hidden.field(classOf[ThriftBinaryCLIService], "server").get(thrift)
      val factory = Hidden.field(classOf[TServer], "inputTransportFactory_")
      factory.set(server, new Remembering(factory.get(server).asInstanceOf[TTransportFactory]))
    }

  /** How long a client may be silent in its login, in milliseconds. A login has a worker of HiveServer2's pool. */
  private val silence = 30000

  /** The login is part of what `own` does. */
  private class Remembering(own: TTransportFactory) extends TTransportFactory {
    override def getTransport(transport: TTransport): TTransport = transport match {
      case client: TSocket =>
        val socket = client.getSocket
        known.set(socket.getInetAddress.getHostAddress)
        val before = socket.getSoTimeout
        socket.setSoTimeout(silence)
        try own.getTransport(transport)
        finally if (!socket.isClosed) socket.setSoTimeout(before)
      case _ =>
        known.remove()
        own.getTransport(transport)
    }
  }
}
