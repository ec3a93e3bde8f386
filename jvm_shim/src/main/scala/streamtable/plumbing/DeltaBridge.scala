package org.apache.spark.sql.delta.streamtable

import java.util.{Map => JavaMap}

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.connector.catalog.{CatalogManager, CatalogV2Util, Identifier, TableCatalog, V1Table}
import org.apache.spark.sql.delta.{DeltaColumnMapping, DeltaConfigs, DeltaLog, Snapshot}
import org.apache.spark.sql.delta.catalog.DeltaTableV2
import org.apache.spark.sql.delta.actions._
import org.apache.spark.sql.delta.skipping.clustering.ClusteredTableUtils
import org.apache.spark.sql.functions.{col, when, lit}
import org.apache.spark.sql.streamtable.{CatalogEntry, IfThere, Places}
import org.json4s._
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

/**
 * Everything that Python asks of Delta: facts as JSON, rows as frames, commits as one call; several names come as JSON too. A thread of
 * Python's has no active session, and Delta asks for it where a version has no checksum.
 */
object DeltaBridge {
  private val manyFiles = 1000

  /** Full name, kind (delta, view, other, none) and path of a table of any catalog, and what the session's catalog accepted of it. */
  def locate(spark: SparkSession, parts: String): String = spark.withActive {
    val catalogs: CatalogManager = spark.sessionState.catalogManager
    val names = strings(parts)
    val (catalog, rest) =
      if (names.size > 2) (catalogs.catalog(names.head), names.tail) else (catalogs.currentCatalog, names)
    val namespace = if (rest.size > 1) rest.init.toArray else catalogs.currentNamespace
    val identifier = Identifier.of(namespace, rest.last)
    val (kind, path, entry) = IfThere(catalog.asInstanceOf[TableCatalog].loadTable(identifier)) match {
      case Some(t: DeltaTableV2) => ("delta", t.path.toString, t.catalogTable)
      case Some(t: V1Table) if t.catalogTable.tableType.name == "VIEW" => ("view", "", None)
      case Some(_) => ("other", "", None)
      case None => ("none", "", None)
    }
    val accepted = entry.filter(_ => CatalogV2Util.isSessionCatalog(catalog)).map(CatalogEntry.accepted)
    compact(
      render(("name" -> (catalog.name +: namespace :+ rest.last).toList) ~ ("kind" -> kind) ~ ("path" -> path) ~
        ("accepted" -> accepted.getOrElse(JArray(Nil)))))
  }

  /** Changes what the session's catalog accepts of a table of its own, for the name `as`: see CatalogEntry. */
  def accept(spark: SparkSession, table: String, as: String, add: String, remove: String): Unit = spark.withActive {
    def named(json: String) = {
      val parts = strings(json)
      TableIdentifier(parts.last, Some(parts(parts.size - 2)))
    }
    CatalogEntry.accept(spark, named(table), named(as), add, remove)
  }

  private def strings(json: String): List[String] = parse(json).children.collect { case JString(each) => each }

  /** Lets the catalog have the columns of one of its tables, where Delta is set to. */
  def tellCatalog(spark: SparkSession, database: String, table: String): Unit = spark.withActive {
    CatalogColumns.tell(spark, TableIdentifier(table, Some(database)))
  }

  /** The latest version and what is recorded in it; no Spark job when the version's checksum is there. */
  def state(spark: SparkSession, path: String): String = spark.withActive {
    val snapshot = Snapshots.latest(spark, path)
    val metadata = snapshot.metadata
    compact(
      render(
        ("table_id" -> metadata.id) ~ ("version" -> snapshot.version) ~ ("commit" -> CommitIds.of(snapshot)) ~
          ("properties" -> metadata.configuration) ~
          ("schema_json" -> metadata.schemaString) ~ ("partition_columns" -> metadata.partitionColumns.toList) ~
          ("clustering" -> ClusteredTableUtils.isSupported(snapshot.protocol)) ~ ("frontier" -> frontierOf(snapshot))))
  }

  private def frontierOf(snapshot: Snapshot): Option[String] =
    snapshot.checksumOpt
      .flatMap(_.domainMetadata)
      .getOrElse(snapshot.domainMetadata)
      .collectFirst { case d if d.domain == "streamtable" && !d.removed => d.configuration }

  /** The latest number that an application has put into the table's commits; null where there is none. */
  def transaction(spark: SparkSession, path: String, application: String): java.lang.Long = spark.withActive {
    Appends.number(Snapshots.latest(spark, path), application).map(Long.box).orNull
  }

  /** The applications that have put a number into the table's commits. */
  def applications(spark: SparkSession, path: String): String = spark.withActive {
    compact(render(JArray(Appends.transactions(Snapshots.latest(spark, path)).map(t => JString(t.appId)).toList)))
  }

  /** The latest numbers of applications whose names begin alike. */
  def transactions(spark: SparkSession, path: String, prefix: String): String = spark.withActive {
    val found = Appends.transactions(Snapshots.latest(spark, path)).filter(_.appId.startsWith(prefix))
    compact(render(JObject(found.map(t => t.appId -> (JLong(t.version): JValue)).toList)))
  }

  /** Appends to a table by name, unless the application's number is there already; false when Spark's writer has to. */
  def append(
      spark: SparkSession,
      table: String,
      rows: Object,
      application: String,
      number: Long,
      marks: String): Boolean =
    spark.withActive {
      val numbers = parse(marks).asInstanceOf[JObject].obj.collect { case (name, JInt(each)) => name -> each.toLong }
      Appends.once(spark, table, rows.asInstanceOf[DataFrame], application, number, numbers.toMap)
    }

  /** Table id, latest version and what tells its commit, of each path, in one call; null for a table that is gone. */
  def versions(spark: SparkSession, paths: String): String = spark.withActive {
    compact(render(JArray(strings(paths).map { path =>
      IfThere(Snapshots.latest(spark, path))
        .map { s =>
          val commit: JValue = CommitIds.of(s).map(JString(_)).getOrElse(JNull)
          JArray(List(JString(s.metadata.id), JLong(s.version), commit))
        }
        .getOrElse(JNull)
    })))
  }

  /** What tells the commit of a version from another one of its number; null where the log does not tell. */
  def commit(spark: SparkSession, path: String, version: Long): String = spark.withActive {
    CommitIds.at(Snapshots.since(spark, path, version), version).orNull
  }

  /** What each commit in (after, upto] did; a missing version is missing in the answer. */
  def commits(spark: SparkSession, path: String, after: Long, upto: Long): String = spark.withActive {
    val log = DeltaLog.forTable(spark, path)
    val summaries = log
      .getChanges(after + 1)
      .takeWhile(_._1 <= upto)
      .map { case (version, actions) =>
        val info = actions.collectFirst { case c: CommitInfo => c }
        val (rows, bytes) = changed(actions)
        ("version" -> version) ~ ("operation" -> info.map(_.operation)) ~
          ("data_change" -> actions.exists { case f: FileAction => f.dataChange; case _ => false }) ~
          ("removes_rows" -> actions.exists { case r: RemoveFile => r.dataChange; case _ => false }) ~
          ("removes_files" -> actions.exists(_.isInstanceOf[RemoveFile])) ~
          ("layouts" -> Layouts.of(actions) { case f: AddFile => f.partitionValues.keySet }) ~
          ("removed_layouts" -> Layouts.of(actions) {
            case r: RemoveFile if r.partitionValues != null => r.partitionValues.keySet
          }) ~
          ("partitioned_by" -> actions.collectFirst { case m: Metadata => Layouts.of(m).toList.sorted }) ~
          ("transactions" -> actions.collect { case t: SetTransaction => t.appId }.toList) ~
          ("rows" -> rows) ~ ("uncounted_bytes" -> bytes) ~ ("feed_bytes" -> actions.collect { case c: AddCDCFile =>
            c.size
          }.sum) ~
          ("feed" -> actions.collectFirst { case m: Metadata => Retained.feeds(m) }) ~
          ("schema" -> actions.collectFirst { case m: Metadata => m.schemaString }) ~
          ("user_metadata" -> info.flatMap(_.userMetadata)) ~ ("metrics" -> info.flatMap(
            _.operationMetrics)) ~ ("timestamp" -> info.flatMap(i => Option(i.timestamp)).map(_.getTime))
      }
      .toList
    compact(render(JArray(summaries)))
  }

  /** Columns of partitions at a version, as files call them. */
  def partitions(spark: SparkSession, path: String, version: Long): String = spark.withActive {
    val columns = Layouts.of(Snapshots.at(Snapshots.latest(spark, path), version))
    compact(render(JArray(columns.toList.sorted.map(JString(_)))))
  }

  /** The columns of a version, as in the log. */
  def columnsAt(spark: SparkSession, path: String, version: Long): String = spark.withActive {
    Snapshots.at(Snapshots.latest(spark, path), version).metadata.schemaString
  }

  /** Rows in files that came or went, those of a file whose deletion vector changed only once, and bytes of files that do not tell. */
  private def changed(actions: Seq[Action]): (Long, Long) = {
    val files = actions.collect { case f: FileAction with HasNumRecords if f.dataChange => f }.groupBy(_.path).values
    val counts = files.map {
      case Seq(file) => file.numLogicalRecords.toRight(file.getFileSize)
      case several => Right(several.map(_.numDeletedRecords).reduce((a, b) => (a - b).abs))
    }
    (counts.flatMap(_.toOption).sum, counts.flatMap(_.left.toOption).sum)
  }

  /** Rows, which may be estimated, and bytes of the table at `version`; null where they cannot be had without a Spark job. */
  def size(spark: SparkSession, path: String, version: Long): String = spark.withActive {
    val found = Snapshots.rowsAndBytes(Snapshots.since(spark, path, version), version)
    compact(render(found.map { case (rows, bytes) => JArray(List(JLong(rows), JLong(bytes))) }.getOrElse(JNull)))
  }

  /** Bytes, and the least and the greatest value of a column, in each file of the latest version; of many files, in every so many. */
  def spans(spark: SparkSession, path: String, column: String): String = spark.withActive {
    val latest = Snapshots.latest(spark, path)
    val stored = latest.metadata.schema.find(_.name == column).map(DeltaColumnMapping.getPhysicalName)
    val files = Snapshots.filesOf(latest, latest.version)
    val every = files.size / manyFiles + 1
    val some = files.zipWithIndex.collect { case (file, n) if n % every == 0 => file }
    compact(render(JArray(stored.toList.flatMap(name => some.map(span(_, name))))))
  }

  private def span(file: AddFile, column: String): JObject = {
    def value(text: String): JValue = if (text == null) JNull else JString(text)
    val told: JValue = if (file.stats == null || file.stats.isEmpty) JNothing else parse(file.stats)
    val (least, most) = file.partitionValues.get(column) match {
      case Some(same) => (value(same), value(same))
      case None => (told \ "minValues" \ column, told \ "maxValues" \ column)
    }
    ("bytes" -> file.size) ~ ("least" -> least) ~ ("most" -> most)
  }

  /** How long, in milliseconds, the log and the files that left the table are kept. */
  def retention(spark: SparkSession, path: String): String = spark.withActive {
    val metadata = Snapshots.latest(spark, path).metadata
    compact(
      render(("log" -> DeltaConfigs.getMilliSeconds(DeltaConfigs.LOG_RETENTION.fromMetaData(metadata))) ~
        ("files" -> DeltaConfigs.getMilliSeconds(DeltaConfigs.TOMBSTONE_RETENTION.fromMetaData(metadata)))))
  }

  /** Whether the files that the commit `version` took out of the table, and those of its change feed, are still there. */
  def holdsFiles(spark: SparkSession, path: String, version: Long): Boolean = spark.withActive {
    val log = DeltaLog.forTable(spark, path)
    val actions = log.getChanges(version).takeWhile(_._1 == version).flatMap(_._2).toSeq
    !Retained.gone(log, actions.collect { case r: RemoveFile => r; case c: AddCDCFile => c })
  }

  /** How many files a compaction would save (small ones beyond the first of a partition) or rewrite (with a part `deleted` of their rows). */
  def filesToCompact(spark: SparkSession, path: String, small: Long, deleted: Double): Int = spark.withActive {
    val latest = Snapshots.latest(spark, path)
    val files = Snapshots.filesOf(latest, latest.version)
    val (worn, whole) = files.partition(_.deletedToPhysicalRecordsRatio.exists(_ > deleted))
    worn.size + whole.filter(_.size < small).groupBy(_.partitionValues).values.map(_.size - 1).sum
  }

  /** The table's rows at `version`. */
  def read(spark: SparkSession, path: String, version: Long): DataFrame = spark.withActive {
    Snapshots.frame(spark, path, version)
  }

  /** The same with `__streamtable_file` and `__streamtable_row`; with `deleted`, rows that are marked as deleted may be among them. */
  def located(spark: SparkSession, path: String, version: Long, deleted: Boolean): DataFrame = spark.withActive {
    val rows = Snapshots.frame(spark, path, version, deleted)
    val place = rows.metadataColumn("_metadata") // also beside a column of the table that bears this name
    rows
      .withColumn("__streamtable_file", place.getField("file_path"))
      .withColumn("__streamtable_row", place.getField("row_index"))
  }

  /** What is there to be read of the past: see Retained. */
  def retained(spark: SparkSession, path: String, after: Long): String = spark.withActive {
    compact(render(Retained.of(spark, path, after)))
  }

  /** The rows that came (+1) and went (-1) in the versions (after, upto], as the column `__streamtable_weight`, each with its version. */
  def changes(
      spark: SparkSession,
      path: String,
      after: Long,
      upto: Long,
      coarse: Boolean,
      partitions: String): DataFrame =
    spark.withActive {
      val log = DeltaLog.forTable(spark, path)
      val snapshot = Snapshots.since(spark, path, upto)
      Layouts.refuseOthers(snapshot, upto, Option(partitions).map(strings(_).toSet))
      val changed = Changes.changesToBatchDF(
        log,
        after + 1,
        upto,
        spark,
        readSchemaSnapshot = Some(snapshot),
        useCoarseGrainedCDC = coarse,
        // Only its metadata is read; the version itself would have to be reconstructed.
        startVersionSnapshot = Some(snapshot))
      val came = col("_change_type").isin("insert", "update_postimage")
      changed
        .withColumn("__streamtable_weight", when(came, lit(1L)).otherwise(lit(-1L)))
        .withColumnRenamed("_commit_version", "__streamtable_version")
        .drop("_change_type", "_commit_timestamp")
    }

  /** The positions that `frame` lists, without those that are deleted already in the table's `version`. */
  def positions(spark: SparkSession, frame: Object, path: String, version: Long): Positions = spark.withActive {
    Commits.positions(spark, frame.asInstanceOf[DataFrame], path, version)
  }

  /** One transaction, whose files are written now. */
  def prepare(
      spark: SparkSession,
      path: String,
      readVersion: Long,
      tableId: String,
      add: Object,
      remove: Positions,
      replaceAll: Boolean,
      application: String,
      applicationVersion: Long,
      alone: Boolean,
      schema: String,
      properties: JavaMap[String, String]): Pending = spark.withActive {
    Commits.prepare(
      spark,
      path,
      readVersion,
      tableId,
      add.asInstanceOf[DataFrame],
      remove,
      replaceAll,
      application,
      applicationVersion,
      alone,
      schema,
      properties)
  }

  /** Fails unless a path is in the hidden folder of a table, with no link on the way. */
  def refuseOutside(spark: SparkSession, table: String, path: String): Unit =
    Planted.refuseOutside(spark, table, path)

  /** Deletes a folder in the hidden folder of a table and forgets it. */
  def drop(spark: SparkSession, table: String, path: String): Unit = spark.withActive {
    Planted.refuseOutside(spark, table, path)
    val root = new Path(path)
    root.getFileSystem(spark.sessionState.newHadoopConf()).delete(root, true)
    DeltaLog.invalidateCache(spark, root)
  }

  /** Deletes the table's own files and forgets it. */
  def dropOwn(spark: SparkSession, path: String, until: Long): Unit = spark.withActive {
    new OwnFiles(spark, new Path(path)).delete(until)
  }

  /** Fails where nothing can be deleted in a table's folder. */
  def probe(spark: SparkSession, path: String): Unit = new OwnFiles(spark, new Path(path)).probe()

  /** The names in a folder; none where it is not there. */
  def names(spark: SparkSession, path: String): String = {
    val folder = new Path(path)
    val fs = folder.getFileSystem(spark.sessionState.newHadoopConf())
    val found = IfThere(fs.listStatus(folder).map(_.getPath.getName).toList).getOrElse(Nil)
    compact(render(JArray(found.map(JString(_)))))
  }

  /** Whether a path of a local disk is a symbolic link, whatever it leads to. */
  def isLink(spark: SparkSession, path: String): Boolean = SmallFiles.isLink(spark, new Path(path))

  /** The table of Delta in whose folder a path is; null where it is in none. */
  def tableAround(spark: SparkSession, path: String): String =
    Places.tableAround(spark, path).map(_.toString).orNull

  /** The folder of a schema. */
  def home(spark: SparkSession, database: String): String = CatalogEntries.home(spark, database).toString

  /** The folder of a table, at a location or where the catalog puts it. */
  def place(spark: SparkSession, database: String, table: String, location: String): String =
    CatalogEntries.place(spark, database, table, location).toString

  /** Gives a table whose files are there its name: the first moment at which others see it. */
  def register(
      spark: SparkSession,
      database: String,
      table: String,
      path: String,
      managed: Boolean,
      comment: String,
      accepted: String): Unit = spark.withActive {
    CatalogEntries.register(spark, database, table, path, managed, comment, accepted)
  }

  /** Makes the catalog leave a table's files alone when its name is dropped. */
  def release(spark: SparkSession, database: String, table: String): Unit = spark.withActive {
    CatalogEntries.release(spark, database, table)
  }

  def writeSmall(spark: SparkSession, path: String, text: String): Unit =
    SmallFiles.write(spark, new Path(path), text)

  /** Name, time and text of each file in a folder. */
  def readSmall(spark: SparkSession, folder: String): String =
    compact(render(JArray(SmallFiles.read(spark, new Path(folder)).toList.map { case (name, at, text) =>
      JArray(List(JString(name), JLong(at), JString(text)))
    })))

  def deleteSmall(spark: SparkSession, path: String): Unit = SmallFiles.delete(spark, new Path(path))

  /** Gives a folder another name, and takes an empty folder of that name away: storage moves it into a folder that is there. */
  def move(spark: SparkSession, from: String, to: String): Unit = {
    val (source, target) = (new Path(from), new Path(to))
    val fs = source.getFileSystem(spark.sessionState.newHadoopConf())
    val free = !fs.exists(target) || fs.listStatus(target).isEmpty && fs.delete(target, false)
    if (!free || !fs.rename(source, target)) throw new java.io.IOException(s"$from could not be moved to $to")
    Seq(source, target).foreach(DeltaLog.invalidateCache(spark, _))
  }
}
