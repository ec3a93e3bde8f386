package org.apache.spark.sql.streamtable

import java.net.URI
import java.util.Locale
import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, LanguageSQL, RoutineLanguage}
import org.apache.spark.sql.catalyst.expressions.{Alias, Expression, Literal}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.command.{CreateSQLFunctionCommand, SetCommand}
import org.apache.spark.sql.execution.datasources.DataSource
import org.apache.spark.sql.internal.HiveSerDe
import org.apache.spark.sql.types.DataType
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String

/**
 * Looks through the plan of a client as it was parsed. Such a plan holds everything in a statement by its name: also in
 * subqueries, in the bodies of scripts, and in the arguments of EXPLAIN, views and functions.
 */
private[streamtable] final class GuardedPlan(guard: Guard, session: SparkSession) {
  import GuardedPlan._

  def check(part: Any): Unit = part match {
    case null | _: DataType | _: String => ()
    case plan: PlanWithUnresolvedIdentifier =>
      check(plan.planBuilder(named(plan.identifierExpr), plan.children))
    case e: ExpressionWithUnresolvedIdentifier => check(e.exprBuilder(named(e.identifierExpr), e.otherExprs))
    case name: TableIdentifier => identifier(name.nameParts)
    case name: FunctionIdentifier => function(Seq(name.funcName))
    case options: CaseInsensitiveStringMap => options.forEach((key, value) => sourceOption(key, value))
    case spec: UnresolvedPartitionSpec => spec.location.foreach(guard.place)
    case (key: String, value) => option(key, value)
    case several: IterableOnce[_] => several.iterator.foreach(check)
    case product: Product => node(product)
    case _ => ()
  }

  /** The name of a table or of what else a statement is about. */
  def identifier(parts: Seq[String]): Unit =
    if (parts.length > 1 && isSource(parts(parts.length - 2))) guard.place(parts.last)

  def function(parts: Seq[String]): Unit = {
    val name = parts.lastOption.getOrElse("").toLowerCase(Locale.ROOT)
    if (parts.exists(_.contains("${"))) guard.refuse("code", "a function whose name is a variable")
    if (codeFunctions(name)) guard.refuse("code", s"the function $name")
    if (fileFunctions(name)) guard.refuse("files", s"the function $name")
  }

  /** The options of a function that may read a file by their means, where they can be told. */
  def options[E](name: String, arguments: Seq[E], told: E => Option[Seq[(String, Any)]]): Unit =
    optionsAt.get(name.toLowerCase(Locale.ROOT)).foreach { position =>
      arguments.drop(position).map(told).foreach {
        case Some(pairs) => pairs.foreach { case (key, value) => option(key, value) }
        case None => guard.refuse("files", s"options of $name that are no map of literals")
      }
    }

  def format(name: String): Unit =
    if (!formats(name.toLowerCase(Locale.ROOT))) guard.refuse("sources", s"the data source $name")

  /** An option of a data source: those of files are settings of Hadoop for it, and a codec may be named by its class. */
  def sourceOption(key: String, value: Any): Unit = {
    ofHadoop(key, value)
    option(key, value)
  }

  private def ofHadoop(key: String, value: Any): Unit = {
    val lower = key.toLowerCase(Locale.ROOT)
    if (codecs(lower)) {
      if (!literal(value).exists(_.matches("\\w*")))
        guard.refuse("code", s"the option $key, unless it is the short name of a codec")
    } else if (lower.contains('.') && !lower.startsWith("delta.") && !placed(lower) && !delimiters(lower))
      guard.refuse("settings", s"the option $key")
  }

  private def literal(value: Any): Option[String] = value match {
    case Some(each) => literal(each)
    case Literal(text: UTF8String, _) => Some(text.toString)
    case text: String => Some(text)
    case _ => None
  }

  /** An option, or a property of a table, of which some become options. */
  def option(key: String, value: Any): Unit = {
    val lower = key.toLowerCase(Locale.ROOT)
    if (lower.startsWith("option.")) sourceOption(key.substring("option.".length), value)
    if (formatted.exists(lower.startsWith) || formatted.exists(each => lower.contains(s".$each"))) ofHadoop(key, value)
    if (classes(lower)) guard.refuse("code", s"a class that reads or writes rows ($key)")
    if (placed(lower)) value match {
      case Some(each) => option(key, each)
      case Literal(text: UTF8String, _) => guard.place(text.toString)
      case text: String => guard.place(text)
      case _: Expression => guard.refuse("files", s"the option $key, unless it is a literal")
      case other => check(other)
    }
    else check(value)
  }

  private def node(product: Product): Unit = {
    product match {
      case f: UnresolvedFunction =>
        function(f.nameParts)
        options(f.nameParts.last, f.arguments, pairs)
      case f: UnresolvedTableValuedFunction => function(f.name)
      case SetCommand(None | Some(("-v", None))) => guard.refuse("settings", "SET without a name in another statement")
      case SetCommand(Some((key, None))) => guard.shown(key)
      case SetCommand(Some((key, Some(value)))) => guard.setting(key, value)
      case f: CreateUserDefinedFunction => body(f.language, f.exprText, f.queryText)
      case f: CreateSQLFunctionCommand => body(LanguageSQL, f.exprText, f.queryText)
      case c: LogicalPlan if isCommand(c) && !commands(c.getClass.getSimpleName) =>
        guard.refuse("code", s"the command ${c.getClass.getSimpleName.stripSuffix("Command")}")
      case _: ScriptTransformation => guard.refuse("code", "TRANSFORM")
      case serde: SerdeInfo if serde.serde.isDefined || serde.formatClasses.isDefined =>
        guard.refuse("code", "a class that reads or writes rows (SERDE, INPUTFORMAT, OUTPUTFORMAT)")
      case _ => ()
    }
    product.productElementNames.zip(product.productIterator).foreach { case (name, value) =>
      field(product, name.toLowerCase(Locale.ROOT), value)
    }
  }

  private def pairs(options: Expression): Option[Seq[(String, Any)]] = options match {
    case map: UnresolvedFunction if map.nameParts.last.equalsIgnoreCase("map") =>
      val told =
        map.arguments.grouped(2).collect { case Seq(Literal(key: UTF8String, _), value) => key.toString -> value }
      Some(told.toSeq).filter(_.size * 2 == map.arguments.size)
    case _ => None
  }

  /** One of ours: the names, queries and places that it mentions, as Python reads them. All can be parsed, or it is refused. */
  def statement(sql: String): Unit = {
    val said = Handlers.mentioned(session, sql)
    def texts(of: JsonNode) = (0 until of.size).map(of.get(_).asText)
    val parser = session.sessionState.sqlParser
    val names = said.get("names")
    (0 until names.size).map(i => texts(names.get(i))).foreach { parts =>
      identifier(parts)
      analysed(UnresolvedRelation(parts))
    }
    texts(said.get("new_places")).foreach(guard.newPlace(session, _))
    texts(said.get("places")).foreach(guard.place)
    texts(said.get("servers")).foreach(server => guard.refuse("sources", s"the server $server"))
    texts(said.get("queries")).foreach(text => analysed(parser.parsePlan(text)))
    texts(said.get("conditions")).foreach { text =>
      val condition = parser.parseExpression(text).transform { case _: UnresolvedAttribute => Literal(null) }
      analysed(Project(Seq(Alias(condition, "condition")()), OneRowRelation()))
    }
  }

  /**
   * Views and functions hold texts that this statement does not: Spark parses those when it analyses, and the guard looks at them. Python
   * would do so unguarded, in a session where no temporary view or function of the client hides others.
   */
  private def analysed(plan: LogicalPlan): Unit = Seq(session, withoutTemporary).foreach { reading =>
    try reading.sessionState.analyzer.execute(plan)
    catch {
      case NonFatal(e) =>
        Iterator.iterate[Throwable](e)(_.getCause).takeWhile(_ != null).foreach {
          case refused: StreamTableException if refused.getCondition == Guard.condition => throw refused
          case _ => // who carries the statement out says so
        }
    }
  }

  private lazy val withoutTemporary: SparkSession = {
    val fresh = session.newSession()
    val (now, its) = (session.sessionState.catalogManager, fresh.sessionState.catalogManager)
    its.setCurrentCatalog(now.currentCatalog.name)
    its.setCurrentNamespace(now.currentNamespace)
    fresh
  }

  private def isSource(name: String): Boolean = {
    if (sources.size > 10000) sources.clear()
    try sources.computeIfAbsent(name, isInstalled(_))
    catch { case _: AnalysisException => false } // settings decide this, and they change
  }

  private def isInstalled(name: String): Boolean =
    try {
      DataSource.lookupDataSource(name, session.sessionState.conf)
      true
    } catch { case _: ClassNotFoundException => false }

  private def field(of: Product, name: String, value: Any): Unit = value match {
    case Some(_) if name.startsWith("inventory") => guard.refuse("files", "VACUUM with an inventory of files")
    case Some(text: String) if of.isInstanceOf[CatalogStorageFormat] && classes(name) =>
      if (!ofFormats(text)) guard.refuse("code", s"a class that reads or writes rows ($text)")
    case Some(inner) => field(of, name, inner)
    case text: String if name == "location" && isDelta(of) => guard.newPlace(session, text)
    case text: String if name.endsWith("location") || name.endsWith("path") => guard.place(text)
    case text: String if name == "serdeclassname" => guard.refuse("code", s"the class $text")
    case uri: URI => guard.place(uri.toString)
    case several: Iterable[_] if isOptions(of, name) =>
      several.foreach {
        case (key: String, each) => sourceOption(key, each)
        case other => check(other)
      }
    case text: String if name == "provider" => format(text)
    case parts: Seq[_] if of.isInstanceOf[LogicalPlan] && nameFields(name) && parts.forall(_.isInstanceOf[String]) =>
      identifier(parts.map(_.toString))
    case other => check(other)
  }

  private def body(language: RoutineLanguage, expression: Option[String], query: Option[String]): Unit = {
    if (language != LanguageSQL) guard.refuse("code", "a function in another language than SQL")
    val parser = session.sessionState.sqlParser
    expression.foreach(parser.parseExpression)
    query.foreach(parser.parseQuery)
  }

  /** The name in an IDENTIFIER clause. */
  private def named(name: Expression): Seq[String] = name match {
    case Literal(text: UTF8String, _) => session.sessionState.sqlParser.parseMultipartIdentifier(text.toString)
    case _ =>
      guard.refuse("code", "IDENTIFIER of something else than a literal or a parameter")
      Seq("nobody")
  }
}

private[streamtable] object GuardedPlan {

  private val codeFunctions = Set("reflect", "java_method", "try_reflect", "from_protobuf", "to_protobuf")
  private val fileFunctions = Set("table_changes_by_path", "python_worker_logs")

  /** Functions that take options, and after how many other arguments. */
  private val optionsAt = Map("from_xml" -> 2, "schema_of_xml" -> 1, "from_avro" -> 2, "schema_of_avro" -> 1)
  private val classes = Set("serde", "inputformat", "outputformat", "storage_handler")

  /** The classes of the formats that have a name. */
  private val ofFormats: Set[String] =
    HiveSerDe.serdeMap.values.flatMap(each => each.serde ++ each.inputFormat ++ each.outputFormat).toSet
  private val formats =
    Set("delta", "parquet", "orc", "csv", "json", "text", "xml", "avro", "hive", "binaryfile", "memory", "noop", "rate")
  private val placed = Set(
    "path",
    "paths",
    "location",
    "checkpointlocation",
    "schemalocation",
    "schematrackinglocation",
    "sourcearchivedir",
    "rowvalidationxsdpath",
    "avroschemaurl",
    "avro.schema.url")
  private val codecs = Set("compression", "codec", "parquet.compression", "orc.compress")

  /** How Hive's text files are laid out. */
  private val delimiters = Set(
    "field.delim",
    "line.delim",
    "escape.delim",
    "mapkey.delim",
    "colelction.delim",
    "collection.delim",
    "serialization.format",
    "serialization.null.format")

  /** Of Hive's tables, properties that begin so, at a dot, are options of the files. */
  private val formatted = Seq("parquet.", "orc.")
  private val nameFields = Set("multipartidentifier", "nameparts", "name", "tablename")

  /** Those that neither run code nor read what is no table, when their paths and sources are allowed. Others are refused. */
  private val commands
      : Set[String] = Set.from(("AddCheckConstraint AddColumns AddConstraint AddPartitions AlterColumnSyncIdentity AlterColumns " +
    "AlterTableAddConstraint AlterTableClusterBy AlterTableCollation AlterTableDropConstraint AlterTableDropFeature " +
    "AlterViewAs AlterViewAsCommand AlterViewSchemaBinding AnalyzeColumn AnalyzeTable AnalyzeTables CacheTable " +
    "CacheTableAsSelect ClearCacheCommand CloneTableStatement CloseCursor CommentOnNamespace CommentOnTable CompoundBody " +
    "ConvertToDeltaCommand CreateIndex CreateMaterializedViewAsSelect CreateNamespace CreateSQLFunctionCommand " +
    "CreateStreamingTable CreateTable CreateTableAsSelect CreateTableLike CreateTableLikeCommand CreateTempView " +
    "CreateTempViewUsing CreateUserDefinedFunction CreateVariable CreateView CreateViewCommand DeclareCursor " +
    "DeleteFromTable DeltaGenerateCommand DeltaReorgTable DescribeColumn DescribeDeltaDetailCommand DescribeDeltaHistory " +
    "DescribeFunction DescribeFunctionCommand DescribeNamespace DescribeQueryCommand DescribeRelation " +
    "DescribeTablePartition DropColumns DropConstraint DropFunction DropFunctionCommand DropIndex DropNamespace " +
    "DropPartitions DropTable DropTempViewCommand DropVariable DropView ExplainCommand FetchCursor InsertIntoDir " +
    "InsertIntoStatement InsertReplaceOn InsertReplaceUsing MergeIntoTable NoopCommand OpenCursor OptimizeTableCommand " +
    "RecoverPartitions RefreshFunction RefreshFunctionCommand RefreshResource RefreshTable RenameColumn RenamePartitions " +
    "RenameTable RepairTable ReplaceColumns ReplaceTable ReplaceTableAsSelect ResetCommand RestoreTableStatement " +
    "SetCatalogAndNamespace SetCatalogCommand SetCommand SetNamespaceCollationCommand SetNamespaceCommand " +
    "SetNamespaceLocation SetNamespaceProperties SetPathCommand SetTableLocation SetTableProperties " +
    "SetTableSerDeProperties SetVariable SetViewProperties ShowCatalogsCommand ShowCollationsCommand ShowColumns " +
    "ShowCreateTable ShowCurrentNamespaceCommand ShowFunctions ShowFunctionsCommand ShowNamespaces ShowNamespacesCommand " +
    "ShowPartitions ShowProceduresCommand ShowTableColumnsCommand ShowTablePartition ShowTableProperties ShowTables " +
    "ShowTablesCommand ShowTablesExtended ShowViews ShowViewsCommand SingleStatement StreamTableCommand TruncatePartition " +
    "TruncateTable UncacheTable UnresolvedExecuteImmediate UnresolvedWith UnsetNamespacePropertiesCommand " +
    "UnsetTableProperties UnsetViewProperties UpdateTable VacuumTableCommand ").split(' '))

  /** Whether a function runs code or reads files, given how many arguments it has. */
  def reaches(function: String, arguments: Int): Boolean = {
    val name = function.toLowerCase(Locale.ROOT)
    codeFunctions(name) || fileFunctions(name) || optionsAt.get(name).exists(arguments > _)
  }

  private def isOptions(of: Product, name: String) =
    name == "options" || (name == "serdeproperties" && !of.isInstanceOf[SerdeInfo]) ||
      (name == "properties" && of.isInstanceOf[CatalogStorageFormat])

  private def isDelta(product: Product) = product match {
    case spec: UnresolvedTableSpec => spec.provider.exists(_.equalsIgnoreCase("delta"))
    case _ => false
  }

  private val sources = new ConcurrentHashMap[String, java.lang.Boolean]()

  private def isCommand(plan: LogicalPlan) = plan match {
    case _: Command | _: ParsedStatement | _: InsertIntoDir => true
    case _ => false
  }
}
