package org.apache.spark.sql.streamtable

import java.nio.file.Paths

import scala.util.Try

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.{SaveMode, SparkSession}
import org.apache.spark.sql.catalyst.catalog.{CatalogDatabase, CatalogStorageFormat, CatalogTable}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, TableSpec, TableSpecBase, UnresolvedTableSpec}
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits._
import org.apache.spark.sql.delta.DeltaTableUtils
import org.apache.spark.sql.execution.command._
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand
import org.apache.spark.sql.hive.execution.{InsertIntoHiveDirCommand, InsertIntoHiveTable}

/** Where stream tables and objects are: a path that leads into the folder of one, above it, or to it by another name. */
private[sql] object Places {

  /** Where a command writes, takes files from, or leads a name to, that is no command on a table of Delta. */
  def of(command: LogicalPlan): Seq[String] = command match {
    case w: InsertIntoHadoopFsRelationCommand => Seq(w.outputPath.toString)
    case w: InsertIntoDataSourceDirCommand => located(w.storage)
    case w: InsertIntoHiveDirCommand => located(w.storage)
    case w: InsertIntoHiveTable => located(w.table.storage)
    case w: LoadDataCommand => Seq(fixed(w.path))
    case w: AlterTableSetLocationCommand => Seq(w.location)
    case w: AlterTableAddPartitionCommand => w.partitionSpecsAndLocs.flatMap(_._2)
    case _ => Nil
  }

  /** Folders that a command may empty, or that a name is led to: not the one of its own name, in which nothing else is. */
  def emptied(session: SparkSession, command: LogicalPlan): Seq[String] = {
    def unlessOwn(entry: CatalogTable) = {
      val own = s"${same(session.sessionState.catalog.defaultTablePath(entry.identifier).toString)}/"
      of(command).filterNot(place => s"${same(place)}/".startsWith(own))
    }
    command match {
      case w: InsertIntoHadoopFsRelationCommand if w.mode != SaveMode.Overwrite => Nil
      case w: InsertIntoHadoopFsRelationCommand => w.catalogTable.fold(of(w))(unlessOwn)
      case w: InsertIntoHiveTable => if (w.overwrite) unlessOwn(w.table) else Nil
      case other => of(other)
    }
  }

  /** The folder of a pattern that holds all that it may mean. */
  private def fixed(pattern: String): String = pattern.indexWhere("*?[{".contains(_)) match {
    case -1 => pattern
    case first => pattern.take(pattern.lastIndexOf('/', first).max(0) + 1)
  }

  /** Where a table is to be made. */
  def of(spec: TableSpecBase): Seq[String] = {
    val location = spec match {
      case said: TableSpec => said.location
      case said: UnresolvedTableSpec => said.location
      case _ => None
    }
    location.toSeq ++ CaseInsensitiveMap(spec.properties).get("location")
  }

  /** The table of Delta in whose folder a path is, if it is in one. Delta itself takes a path in a log for no part of a table. */
  def tableAround(session: SparkSession, path: String): Option[Path] =
    IfThere(DeltaTableUtils.findDeltaTableRoot(session, outsideOfLogs(new Path(path)))).flatten

  private def outsideOfLogs(path: Path): Path = Iterator
    .iterate(path)(_.getParent)
    .takeWhile(_ != null)
    .filter(each => each.getName == "_delta_log" || each.getName == "_samples")
    .toSeq
    .lastOption
    .fold(path)(_.getParent)

  /** A schema of the session's catalog, if it is there. */
  def schema(session: SparkSession, name: String): Option[CatalogDatabase] = {
    val catalog = session.sessionState.catalog
    Option.when(catalog.databaseExists(name))(catalog.getDatabaseMetadata(name))
  }

  /** What the session's catalog has in some schemas. */
  def entries(session: SparkSession, schemas: Seq[String]): Iterator[CatalogTable] = {
    val catalog = session.sessionState.catalog
    schemas.iterator.flatMap(schema =>
      catalog.getTablesByName(catalog.listTables(schema, "*", includeLocalTempViews = false)))
  }

  /** A table or an object of ours whose folder is in another one, and whose name is not in the schema `but`. */
  def oursIn(session: SparkSession, folder: String, but: Option[String] = None): Option[String] = {
    val above = s"${same(folder)}/"
    val found = for {
      entry <- entries(session, session.sessionState.catalog.listDatabases().filterNot(but.contains))
      noun <- CatalogEntry.noun(entry) if placeOf(entry).exists(same(_).startsWith(above))
    } yield s"the $noun ${entry.identifier.nameParts.quoted}"
    found.nextOption()
  }

  /** A path of a local disk without the links in it; any other as it is. */
  def same(path: String): String = {
    val uri = new Path(path).toUri
    if (uri.getScheme == null || uri.getScheme == "file")
      Try(Paths.get(uri.getPath).toRealPath().toString).getOrElse(uri.getPath)
    else path
  }

  private def placeOf(entry: CatalogTable) = entry.storage.locationUri.map(_.toString)

  private def located(storage: CatalogStorageFormat) = storage.locationUri.map(_.toString).toSeq
}
