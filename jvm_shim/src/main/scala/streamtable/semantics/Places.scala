package org.apache.spark.sql.streamtable

import java.nio.file.Paths

import scala.util.Try

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTable}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, TableSpec, TableSpecBase, UnresolvedTableSpec}
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.delta.DeltaTableUtils
import org.apache.spark.sql.execution.command._
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand
import org.apache.spark.sql.hive.execution.InsertIntoHiveDirCommand

/** Where stream tables are: a path that leads into the folder of one, above it, or to it by another name. */
private object Places {

  /** Where a command writes, takes files from, or leads a name to, that is no command on a table of Delta. */
  def of(command: LogicalPlan): Seq[String] = command match {
    case w: InsertIntoHadoopFsRelationCommand => Seq(w.outputPath.toString)
    case w: InsertIntoDataSourceDirCommand => located(w.storage)
    case w: InsertIntoHiveDirCommand => located(w.storage)
    case w: LoadDataCommand => Seq(w.path)
    case w: AlterTableSetLocationCommand => Seq(w.location)
    case w: AlterTableAddPartitionCommand => w.partitionSpecsAndLocs.flatMap(_._2)
    case _ => Nil
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

  /** The table of Delta in whose folder a path is, if it is in one. */
  def tableAround(session: SparkSession, path: String): Option[Path] =
    Try(DeltaTableUtils.findDeltaTableRoot(session, new Path(path))).toOption.flatten

  /** A stream table whose folder is in another one, and whose name is not in the schema `but`. */
  def streamTableIn(session: SparkSession, folder: String, but: Option[String] = None): Option[TableIdentifier] = {
    val catalog = session.sessionState.catalog
    val above = s"${same(folder)}/"
    catalog
      .listDatabases()
      .filterNot(but.contains)
      .iterator
      .flatMap(schema => catalog.getTablesByName(catalog.listTables(schema, "*", includeLocalTempViews = false)))
      .find(entry => CatalogEntry.isStreamTable(entry, None) && placeOf(entry).exists(same(_).startsWith(above)))
      .map(_.identifier)
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
