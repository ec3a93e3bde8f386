package org.apache.spark.sql.streamtable

import java.util.{List => JavaList, Locale}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.internal.config.{ConfigProvider, ConfigReader}
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.command.{LeafRunnableCommand, SetCommand}
import org.apache.spark.sql.internal.SQLConf

/**
 * What the clients of a server may not do: run code in it, read and write its machine by path, reach other machines, change or read its
 * settings. Python says what is allowed all the same. Statements of the server's own, which Python gives on threads of its own or while
 * it answers a client, are not looked at.
 */
private[streamtable] final case class Guard(
    allowed: Set[String],
    places: Seq[Path],
    ofServer: Map[String, String],
    hidden: SQLConf,
    substitutes: Boolean) {

  /** Refuses `what` unless its kind is allowed. */
  def refuse(kind: String, what: String): Unit = if (!allowed(kind)) throw Guard.refusal(kind, what)

  /** Refuses a place that is not below an allowed one. */
  def place(text: String): Unit =
    if (!allowed("files") && !places.exists(Guard.holds(_, text)))
      throw Guard.refusal("files", s"the path $text", "paths = \"...\" with a folder above it, or ")

  /** Refuses a place for a new table of Delta where there is something already. */
  def newPlace(session: SparkSession, text: String): Unit = {
    val path = new Path(text)
    val free = Guard.isPlain(text) && path.isAbsolute && Guard.inStorageOf(session, path) &&
      !path.getFileSystem(session.sessionState.newHadoopConf()).exists(path)
    if (!free) place(text)
  }

  def setting(key: String, value: String): Unit =
    if (!Guard.settable(key, value)) refuse("settings", s"the setting $key")

  /** A value that is shown must be of those that every client may know. */
  def shown(key: String): Unit = if (!knowable(key)) refuse("settings", s"the value of $key")

  def knowable(key: String): Boolean =
    allowed("settings") || Guard.ofQueries(key) && hidden.redactOptions(Map(key -> "x")).values.head == "x"

  /** Settings that came by another way than SET, as in the URL of a JDBC driver. Hive copies those of the server into each session. */
  def settings(session: SparkSession): Unit =
    session.sessionState.conf.settings.asScala.foreach { case (key, value) =>
      val serversOwn = ofServer.get(key).contains(value) || key.nonEmpty && System.getProperty(key) == value
      if (!serversOwn && !Guard.ofSessions(key)) setting(key, value)
    }
}

/** SET without a name, given by a client: the settings alone whose value each client may know. */
case class KnowableSettings(set: SetCommand, override val output: Seq[Attribute]) extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] =
    set.run(session).filter(row => Guard.always.forall(_.knowable(row.getString(0))))
}

object Guard {

  @volatile private var current: Option[Guard] = None
  private val inside = ThreadLocal.withInitial[Integer](() => 0)

  /** Guards all statements of clients from now on; what is allowed to them are kinds of things, and what lies below some places. */
  def set(session: SparkSession, allowed: JavaList[String], places: JavaList[String]): Unit = {
    val conf = session.sessionState.conf
    val substitutes = conf.variableSubstituteEnabled
    // Spark puts the environment and secrets of the server in place of `${...}`, also in what it shows of a statement.
    val never = SQLConf.VARIABLE_SUBSTITUTE_ENABLED.key
    session.sparkContext.conf.set(never, "false")
    conf.setConfString(never, "false")
    val ofServer = conf.settings.asScala.toMap
    current = Some(
      Guard(allowed.asScala.toSet, places.asScala.toSeq.map(new Path(_)), ofServer, conf.clone(), substitutes))
  }

  private[streamtable] def ofClients: Option[Guard] = current.filterNot(_ => inside.get > 0 || Handlers.askedByPython)

  /** The guard of a request that does not come on the thread of a statement. */
  private[streamtable] def always: Option[Guard] = current

  /** Does the server's own work for a client. */
  private[streamtable] def own[T](work: => T): T = {
    inside.set(inside.get + 1)
    try work
    finally inside.set(inside.get - 1)
  }

  /** Parses the text of a client: with its variables in place, and the plan looked through. */
  private[streamtable] def parsed[T](session: SparkSession, sql: String, parse: String => T): T =
    ofClients.fold(parse(sql)) { guard =>
      guard.settings(session)
      val plan = parse(if (guard.substitutes) substituted(guard, sql) else sql)
      (plan: Any) match {
        case set @ SetCommand(None | Some(("-v", None))) => KnowableSettings(set, set.output).asInstanceOf[T]
        case _ =>
          new GuardedPlan(guard, session).check(plan)
          plan
      }
    }

  /** Whether a function runs code or reads files, given how many arguments it has. Python asks. */
  def reaches(function: String, arguments: Int): Boolean = GuardedPlan.reaches(function, arguments)

  /** Spark's own substitution has all settings, Java's properties and the environment. */
  private def substituted(guard: Guard, sql: String): String = {
    val conf = SQLConf.get
    val known: ConfigProvider = key => Option.when(guard.knowable(key) && conf.contains(key))(conf.getConfString(key))
    val nothing: ConfigProvider = _ => None
    val reader = new ConfigReader(known)
    Seq("spark", "sparkconf", "hivevar", "hiveconf").foreach(reader.bind(_, known))
    reader.bind("env", nothing).bind("system", nothing).substitute(sql)
  }

  private[streamtable] val condition = "STREAMTABLE_NOT_ALLOWED"

  private[streamtable] def refusal(kind: String, what: String, or: String = "") = StreamTableException(
    condition,
    "42501",
    s"this server does not let its clients use $what",
    s"do without it, or let its owner write ${or}allow = \"$kind\" into [server] (docs/how-to/security.md says what that opens)")

  /** What Spark and Hive's drivers set in each session. */
  private val ofSessions = Set(
    "spark.sql.hive.version",
    "spark.sql.hive.thriftServer.singleSession",
    "hive.server2.thrift.resultset.default.fetch.size",
    "set:hiveconf:hive.server2.thrift.resultset.default.fetch.size")
  private val ofQueries: String => Boolean = key =>
    !key.contains('.') || Seq(
      "hivevar:",
      "spark.sql.",
      "spark.python.sql.",
      "spark.databricks.delta.",
      "spark.streamtable.").exists(key.startsWith)
  private val sensitive = Seq(
    "sql.catalog.",
    "class",
    "default.provider",
    "dir",
    "extension",
    "jars",
    "location",
    "path",
    "provider",
    "python",
    "redaction",
    "sources.default",
    "url",
    "variable.substitute")

  /** Whether a key decides about queries alone, and a value names no class and no place. */
  private[streamtable] def settable(said: String, value: String): Boolean = {
    val key = said.stripPrefix("hivevar:") // Spark sets what comes after it
    val lower = key.toLowerCase(Locale.ROOT)
    val plain = !value.matches("(?s).*([A-Za-z_$]\\.[A-Za-z_$]|/|\\\\).*") || lower == "spark.sql.session.timezone"
    !key.contains('.') ||
    ofQueries(key) && plain && !sensitive.exists(lower.contains) && !SQLConf.isStaticConfigKey(key)
  }

  private def holds(place: Path, text: String): Boolean = {
    val path = new Path(text)
    val whole = normal(path)
    val above = normal(place)
    isPlain(text) && path.isAbsolute && (whole == above || whole.startsWith(
      if (above.endsWith("/")) above
      else s"$above/"))
  }

  /** Whether a path leads nowhere else: Hadoop takes a backslash away before it looks at what follows. */
  private def isPlain(text: String): Boolean = !text.contains("..") && !text.contains('\\')

  /** Whether a path is in the storage where new tables are anyway: to look at another one is to reach another machine. */
  private def inStorageOf(session: SparkSession, path: Path): Boolean = {
    def storage(of: Path) = (Option(of.toUri.getScheme), Option(of.toUri.getAuthority))
    val hadoop = session.sessionState.newHadoopConf()
    val own = Seq(new Path(session.sessionState.conf.warehousePath), new Path(FileSystem.getDefaultUri(hadoop)))
    path.toUri.getScheme == null && path.toUri.getAuthority == null || own.map(storage).contains(storage(path))
  }

  private def normal(path: Path): String = {
    val uri = path.toUri
    val scheme = Option(uri.getScheme).map(_.toLowerCase(Locale.ROOT)).filterNot(_ == "file").getOrElse("")
    s"$scheme:${Option(uri.getAuthority).getOrElse("")}:${uri.getPath}"
  }
}
