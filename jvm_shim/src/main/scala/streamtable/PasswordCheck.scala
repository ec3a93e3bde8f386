package org.apache.spark.sql.streamtable

import javax.security.sasl.AuthenticationException

import org.apache.hive.service.auth.PasswdAuthenticationProvider

/** What Python implements over py4j: it knows the users. */
trait Passwords {
  def accepts(user: String, password: String): Boolean
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
      if (!Passwords.current.exists(_.accepts(user, password)))
        throw new AuthenticationException("the user is unknown, or the password is not the user's")
    finally Handlers.registered.foreach(_.connections.tidy())
}
