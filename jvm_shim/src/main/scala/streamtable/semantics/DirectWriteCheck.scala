package org.apache.spark.sql.streamtable

import java.lang.ref.WeakReference

import scala.util.Try
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.json4s.JString
import org.json4s.jackson.JsonMethods.parse

import org.apache.spark.sql.{SaveMode, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{
  NoSuchDatabaseException,
  NoSuchNamespaceException,
  NoSuchTableException,
  ResolvedIdentifier,
  ResolvedNamespace,
  ResolvedTable
}
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits._
import org.apache.spark.sql.connector.catalog.CatalogV2Util.isSessionCatalog
import org.apache.spark.sql.connector.catalog.V1Table
import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.delta.catalog.DeltaTableV2
import org.apache.spark.sql.delta.commands._
import org.apache.spark.sql.delta.files.TahoeFileIndex
import org.apache.spark.sql.delta.sources.{DeltaDataSource, DeltaSink}
import org.apache.spark.sql.execution.command.{
  AlterTableRenameCommand,
  AlterViewAsCommand,
  CreateViewCommand,
  DropDatabaseCommand,
  DropTableCommand
}
import org.apache.spark.sql.execution.datasources.{
  HadoopFsRelation,
  InsertIntoDataSourceCommand,
  LogicalRelation,
  SaveIntoDataSourceCommand
}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * Refuses every write to a stream table but its refreshes': the next refresh would not know of it. A command that is not known here
 * could be a write, and is refused on a stream table as well. What means something for a stream table is carried out as that, if the
 * rule `replaces` plans. Where the session asks for it, has Python judge what changes the shape of any other table or view.
 */
case class DirectWriteCheck(session: SparkSession, replaces: Boolean = false) extends Rule[LogicalPlan] {
  import DirectWriteCheck._

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (isEngine(session) || !replaces && passed(plan)) plan
    else {
      val after = plan.collectFirst(Function.unlift(judged)).getOrElse(plan)
      if (replaces) last.set(new WeakReference(after))
      after
    }

  /** What is carried out instead of a statement, if it is not refused. */
  private def judged(node: LogicalPlan): Option[LogicalPlan] = {
    takenAlong(node).foreach { case (what, owner) => refuseFiles(what, owner) }
    val written = for (write <- writesOf(node); target <- write.target) yield judge(node, write, target)
    written.flatten.headOption.orElse(if (replaces) Instead.ofSchema(session, node) else None)
  }

  private def judge(node: LogicalPlan, write: Write, target: Target): Option[LogicalPlan] =
    if (ours(target)) instead(node, target).orElse(refuse(write, target.name))
    else {
      if (!write.ofTheName || takesFilesAlong(target))
        owner(target).foreach(name =>
          if (write.ofTheName) refuseFiles(s"${write.operation} on ${target.name}", s"the stream table $name")
          else refuse(write, name))
      if (write.changesShape && blocksSourceDdl(session))
        Handlers.checkSourceDdl(session, write.operation, target.name, target.place)
      None
    }

  private def instead(node: LogicalPlan, target: Target): Option[LogicalPlan] =
    if (replaces) target.entry.flatMap(entry => Instead.of(session, node, entry.identifier)) else None

  private def ours(target: Target) = target.entry.exists(CatalogEntry.isStreamTable(_, target.id))

  /** Whether Spark deletes or moves the files with the name: also where SET LOCATION has led it to those of another table. */
  private def takesFilesAlong(target: Target) = target.entry.exists(_.tableType == CatalogTableType.MANAGED)

  /** The stream table whose files a path or a second name leads to. Copies hold the same properties, at another place. */
  private def owner(target: Target): Option[String] = for {
    written <- target.properties.get(nameProperty)
    parts <- Try(parse(written).children.collect { case JString(part) => part }).toOption if parts.size == 3
    entry <- entryOf(TableIdentifier(parts(2), Some(parts(1))))
    if CatalogEntry.isStreamTable(entry, target.id) &&
      Places.same(DeltaLog.forTable(session, entry).dataPath.toString) == Places.same(target.place)
  } yield parts.quoted

  /** A catalog that cannot be read is an error of its own. */
  private def entryOf(name: TableIdentifier): Option[CatalogTable] =
    try Some(session.sessionState.catalog.getTableMetadata(name))
    catch { case _: NoSuchTableException | _: NoSuchDatabaseException | _: NoSuchNamespaceException => None }

  /** Whether a plan has a command that could write to a table. No table is looked for. */
  def mayWrite(plan: LogicalPlan): Boolean = plan.exists {
    case _: AccompaniedCommand | _: FollowedCommand | _: UnfollowedExplain => false
    case command: Command => knownWrite.isDefinedAt(command) || !WithoutWrites.names(command.getClass.getSimpleName)
    case _ => false
  }

  private def writesOf(node: LogicalPlan): Seq[Write] = knownWrite
    .andThen(Seq(_))
    .applyOrElse(
      node,
      (other: LogicalPlan) =>
        other match {
          case _: AccompaniedCommand | _: FollowedCommand | _: UnfollowedExplain => Nil // judged before it was planned
          case command: Command if !WithoutWrites.names(command.getClass.getSimpleName) =>
            mentioned(command).map(target => Write(s"the command ${command.nodeName}", Some(target), unknown))
          case _ => Nil
        })

  /** The paths of the tables to which the commands of a plan commit; a table that loses its name is none. */
  def places(plan: LogicalPlan): Seq[String] = plan
    .collect { case node: Command => writesOf(node) }
    .flatten
    .filterNot(_.ofTheName)
    .flatMap(_.target)
    .filter(_.id.isDefined)
    .map(_.place)
    .distinct

  /** What `node` writes to, if it is a write that could concern a Delta table. */
  private val knownWrite: PartialFunction[LogicalPlan, Write] = {
    case w: AppendData => Write("INSERT", inPlan(w.table), refresh)
    case w: OverwriteByExpression =>
      Write("INSERT OVERWRITE", inPlan(w.table), refresh, changesShape = overwritesSchema(w.writeOptions))
    case w: OverwritePartitionsDynamic =>
      Write("INSERT OVERWRITE", inPlan(w.table), refresh, changesShape = overwritesSchema(w.writeOptions))
    case w: V2WriteCommand => Write("INSERT OVERWRITE", inPlan(w.table), refresh)
    case w: DeltaInsertReplaceOnOrUsingCommand => Write("INSERT OVERWRITE", Some(table(w.deltaTable)), refresh)
    case w: InsertIntoDataSourceCommand => Write("INSERT", inPlan(w.logicalRelation), refresh)
    case w: UpdateTable => Write("UPDATE", inPlan(w.table), refresh)
    case w: DeleteFromTable => Write("DELETE", inPlan(w.table), refresh)
    case w: MergeIntoTable => Write("MERGE", inPlan(w.targetTable), refresh)
    case w: DeltaMergeInto => Write("MERGE", inPlan(w.target), refresh)
    case w: UpdateCommand => Write("UPDATE", inPlan(w.target), refresh)
    case w: DeleteCommand => Write("DELETE", inPlan(w.target), refresh)
    case w: MergeIntoCommand => Write("MERGE", inPlan(w.target), refresh)
    case w: TruncateDeltaTableCommand => Write("TRUNCATE", inPlan(w.child), refresh)
    case w: V2PartitionCommand => Write("TRUNCATE or ALTER TABLE", inPlan(w.table), refresh)
    // The table in this command is the old version, whose properties may be older than the stream table.
    case w: RestoreTableCommand => Write("RESTORE", Some(table(w.sourceTable.copy(timeTravelOpt = None))), refresh)
    case SaveIntoDataSourceCommand(_, _: DeltaDataSource, options, SaveMode.Append | SaveMode.Overwrite) =>
      val path = CaseInsensitiveMap(options).get("path")
      Write("a DataFrame write", path.flatMap(atPath(_, None)), refresh, changesShape = overwritesSchema(options))
    case w: WriteToStream if w.sink.isInstanceOf[DeltaSink] =>
      val sink = w.sink.asInstanceOf[DeltaSink]
      Write("a streaming write", atPath(sink.path.toString, sink.catalogTable), refresh)

    case w: RenameTable =>
      Write(
        "ALTER TABLE RENAME",
        inPlan(w.child),
        name => s"use ALTER STREAM TABLE $name RENAME TO",
        changesShape = true,
        ofTheName = true)
    case w: SetTableProperties =>
      val target = inPlan(w)
      val mapping = CaseInsensitiveMap(w.properties).get(columnMapping)
      Write(
        "ALTER TABLE",
        target,
        properties,
        changesShape = mapping.isDefined && target.exists(_.properties.get(columnMapping) != mapping))
    case w @ (_: UnsetTableProperties | _: CommentOnTable) => Write("ALTER TABLE", inPlan(w), properties)
    case w @ (_: AddColumns | _: ReplaceColumns | _: DropColumns | _: RenameColumn | _: AlterColumns |
        _: SetTableLocation) =>
      Write("ALTER TABLE", inPlan(w), redefine, changesShape = true)
    case w: AlterTableCommand => Write("ALTER TABLE", inPlan(w.table), redefine)
    case w: AlterDeltaTableCommand => Write("ALTER TABLE", Some(table(w.table)), redefine)
    case w if Versions.constrained(w).isDefined =>
      Write("ALTER TABLE", Versions.constrained(w).flatMap(inPlan), redefine)
    case w: DropTable =>
      Write(
        "DROP TABLE",
        dropped(w.child),
        name => s"use DROP STREAM TABLE $name",
        changesShape = true,
        ofTheName = true)
    case w: ReplaceTable =>
      Write("CREATE OR REPLACE TABLE", replaced(w.name, w.tableSpec), redefine, changesShape = true)
    case w: ReplaceTableAsSelect =>
      Write("CREATE OR REPLACE TABLE", replaced(w.name, w.tableSpec), redefine, changesShape = true)
    case w: CreateDeltaTableCommand if w.operation != TableCreationModes.Create =>
      val existing = w.existingTableOpt.orElse(Some(w.table).filter(_.storage.locationUri.isDefined))
      Write(
        "CREATE OR REPLACE TABLE",
        existing.flatMap(t => atPath(t.location.toString, Some(t))),
        redefine,
        changesShape = true)

    case w: CreateViewCommand if w.replace =>
      Write("CREATE OR REPLACE VIEW", view(w.name), redefine, changesShape = true)
    case w: AlterViewAsCommand => Write("ALTER VIEW", view(w.name), redefine, changesShape = true)
    case w: AlterTableRenameCommand if w.isView =>
      Write("ALTER VIEW RENAME", view(w.oldName), redefine, changesShape = true)
    case w: DropTableCommand if w.isView => Write("DROP VIEW", view(w.tableName), redefine, changesShape = true)
    case w if Places.of(w).nonEmpty =>
      Write(s"the command ${w.nodeName}", Places.of(w).flatMap(around).find(owner(_).isDefined), refresh)
  }

  /** The table of Delta in whose folder a path is. */
  private def around(path: String): Option[Target] =
    Places.tableAround(session, path).flatMap(root => atPath(root.toString, None))

  /** What is done to a schema, to a table that was led elsewhere, or to a folder, and what of ours is below and would be deleted. */
  private def takenAlong(node: LogicalPlan): Option[(String, String)] = node match {
    case w: DropDatabaseCommand => inSchema(w.databaseName)
    case DropNamespace(ResolvedNamespace(catalog, Seq(schema), _), _, _) if isSessionCatalog(catalog) =>
      inSchema(schema)
    case DropTable(ResolvedIdentifier(catalog, name), _, _) if isSessionCatalog(catalog) =>
      for {
        entry <- entryOf(name.asTableIdentifier)
        if entry.tableType == CatalogTableType.MANAGED
        at <- entry.storage.locationUri
        if at != session.sessionState.catalog.defaultTablePath(entry.identifier)
        found <- Places.oursIn(session, at.toString)
      } yield s"DROP TABLE on ${entry.identifier.nameParts.quoted}" -> found
    case w =>
      Places
        .emptied(session, w)
        .flatMap(place => Places.oursIn(session, place))
        .headOption
        .map(found => s"the command ${w.nodeName}" -> found)
  }

  private def inSchema(schema: String): Option[(String, String)] = for {
    known <- Places.schema(session, schema)
    found <- Places.oursIn(session, known.locationUri.toString, Some(known.name))
  } yield s"DROP DATABASE $schema" -> found

  /** The Delta table that Spark has resolved in `plan`; its snapshot is loaded already. */
  private def inPlan(plan: LogicalPlan): Option[Target] = plan.collectFirst(deltaTable)

  private val deltaTable: PartialFunction[LogicalPlan, Target] = {
    case relation: DataSourceV2Relation if relation.table.isInstanceOf[DeltaTableV2] =>
      table(relation.table.asInstanceOf[DeltaTableV2])
    case ResolvedTable(_, _, delta: DeltaTableV2, _) => table(delta)
    case LogicalRelation(HadoopFsRelation(index: TahoeFileIndex, _, _, _, _, _), _, catalogTable, _, _) =>
      val metadata = index.metadata
      Target(
        nameOf(catalogTable, index.path),
        index.path.toString,
        metadata.configuration,
        catalogTable,
        Some(metadata.id))
  }

  /** All tables that a command names or reads: of one that is not known, any of them could be written. */
  private def mentioned(command: Command): Seq[Target] = {
    def in(part: Any): Seq[Target] = part match {
      case plan: LogicalPlan => plan.collect(deltaTable)
      case delta: DeltaTableV2 => Seq(table(delta))
      case entry: CatalogTable => entry.storage.locationUri.flatMap(at => atPath(at.toString, Some(entry))).toSeq
      case name: TableIdentifier => entryOf(name).toSeq.flatMap(in)
      case several: Iterable[_] => several.toSeq.flatMap(in)
      case Some(inner) => in(inner)
      case _ => Nil
    }
    command.productIterator.flatMap(in).toSeq.distinct
  }

  /** The table that a name stands for, if it exists: Spark leaves it unread in DROP and REPLACE. */
  private def named(plan: LogicalPlan): Option[Target] = plan match {
    case ResolvedIdentifier(catalog, identifier) =>
      def table = catalog.asTableCatalog.loadTable(identifier)
      // Stream tables have their names in the session's catalog. A table that another one cannot load can still be dropped.
      val found = if (isSessionCatalog(catalog)) IfThere(table) else Try(table).toOption
      found.flatMap {
        case delta: DeltaTableV2 => read(delta)
        case other: V1Table => led(other.catalogTable)
        case _ => None
      }
    case _ => None
  }

  /** A table whose files cannot be looked at is what the catalog says that it is: it can still be dropped. */
  private def dropped(plan: LogicalPlan): Option[Target] =
    try named(plan)
    catch {
      case NonFatal(e) =>
        plan match {
          case ResolvedIdentifier(catalog, name) if isSessionCatalog(catalog) =>
            entryOf(name.asTableIdentifier).map(unread).orElse(throw e)
          case _ => throw e
        }
    }

  /** The table of a name, or the one at the place of a new name. */
  private def replaced(name: LogicalPlan, spec: TableSpecBase): Option[Target] =
    named(name).orElse(Places.of(spec).flatMap(around).headOption)

  /** The table of Delta to whose files the name of another table leads. */
  private def led(entry: CatalogTable): Option[Target] = for {
    at <- entry.storage.locationUri
    found <- around(at.toString)
  } yield found.copy(name = entry.identifier.nameParts.quoted, entry = Some(entry))

  /** A view that lasts; it is no stream table, but stream tables may read it. */
  private def view(name: TableIdentifier): Option[Target] =
    Option.when(name.database.isDefined)(Target(name.nameParts.quoted, name.unquotedString, Map.empty, None, None))

  private def atPath(path: String, catalogTable: Option[CatalogTable]): Option[Target] =
    IfThere(DeltaTableV2(session, new Path(path), catalogTable)).flatMap(read)
}

private object DirectWriteCheck {

  /** The table property with the name under which a stream table was made, as a JSON array. */
  val nameProperty = "streamtable.name"

  /** The SparkContext's local property under which the engine's own writes pass. */
  val engineProperty = "streamtable.engine"

  def isEngine(session: SparkSession): Boolean = session.sparkContext.getLocalProperty(engineProperty) == "true"

  /** The plan that passed the rule last on this thread: as long as it is the same object, the check has the same answer. */
  private val last = new ThreadLocal[WeakReference[LogicalPlan]]

  /** Whether a plan has just passed the rule; the second time it is looked at anew. */
  private def passed(plan: LogicalPlan): Boolean = {
    val before = last.get
    last.remove()
    before != null && (before.get eq plan)
  }

  /** Does what is the engine's own. */
  def asEngine[T](session: SparkSession)(work: => T): T = {
    val before = session.sparkContext.getLocalProperty(engineProperty)
    session.sparkContext.setLocalProperty(engineProperty, "true")
    try work
    finally session.sparkContext.setLocalProperty(engineProperty, before)
  }

  /** Whether the setting is there that asks for Python's judgement. */
  def blocksSourceDdl(session: SparkSession): Boolean =
    session.conf.getOption("spark.streamtable.blockSourceDdl").isDefined

  /** The property that gives columns other names in the files than in the table. */
  val columnMapping = "delta.columnMapping.mode"

  /**
   * `place`: the path of a table, the full name of a view. `entry`: that of the catalog, where there is a name. `id`: the one that
   * Delta gave the table; none where its folder is gone, or its log cannot be read.
   */
  case class Target(
      name: String,
      place: String,
      properties: Map[String, String],
      entry: Option[CatalogTable],
      id: Option[String])

  /**
   * `changesShape`: what reads the table may not find its columns any more, or not the table. `ofTheName`: the files stay, so that
   * this may be done to a second name of them.
   */
  case class Write(
      operation: String,
      target: Option[Target],
      advice: String => String,
      changesShape: Boolean = false,
      ofTheName: Boolean = false)

  private def overwritesSchema(options: Map[String, String]) =
    CaseInsensitiveMap(options).get("overwriteSchema").exists(_.equalsIgnoreCase("true"))

  private val unknown = (name: String) =>
    s"streamtable does not know the command, so that it could be a write; run it on a copy of $name"
  private val refresh = (name: String) => s"change the tables that its query reads, then REFRESH STREAM TABLE $name"
  private val properties = (name: String) => s"use ALTER STREAM TABLE $name SET TBLPROPERTIES"
  private val redefine = (name: String) =>
    s"its definition decides this; use CREATE OR REPLACE STREAM TABLE $name or ALTER STREAM TABLE $name"

  private def table(delta: DeltaTableV2) = {
    val snapshot = delta.initialSnapshot
    Target(
      nameOf(delta.catalogTable, delta.path),
      delta.deltaLog.dataPath.toString,
      snapshot.metadata.configuration,
      delta.catalogTable,
      Option.when(snapshot.version >= 0)(snapshot.metadata.id))
  }

  /** A table whose log is gone is what the catalog says that it is. */
  private def read(delta: DeltaTableV2): Option[Target] =
    IfThere(table(delta)).orElse(delta.catalogTable.map(unread))

  private def unread(entry: CatalogTable) =
    Target(
      entry.identifier.nameParts.quoted,
      entry.storage.locationUri.fold("")(_.toString),
      Map.empty,
      Some(entry),
      None)

  private def nameOf(catalogTable: Option[CatalogTable], path: Path) =
    catalogTable.map(_.identifier.nameParts.quoted).getOrElse(s"delta.`$path`")

  private def refuseFiles(what: String, owner: String) =
    throw StreamTableException(
      "STREAMTABLE_DIRECT_WRITE",
      "42809",
      s"$what is refused: it would delete or move the files of $owner.",
      "point this name at another folder (ALTER ... SET LOCATION), or remove a link in the place of its folder; " +
        s"or drop $owner first")

  private def refuse(write: Write, name: String) =
    throw StreamTableException(
      "STREAMTABLE_DIRECT_WRITE",
      "42809",
      s"${write.operation} on $name is refused: it is a stream table, and only its refreshes write to it.",
      write.advice(name))
}
