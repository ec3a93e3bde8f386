package org.apache.spark.sql.delta.streamtable

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException
import org.apache.spark.sql.catalyst.catalog._
import org.apache.spark.sql.catalyst.catalog.CatalogTableType.{EXTERNAL, MANAGED}
import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.streamtable.CatalogEntry
import org.apache.spark.sql.types.StructType

/** Entries of Spark's own catalog for tables whose files are there: made and taken away without touching a file. */
private[streamtable] object CatalogEntries {

  /** The folder of a schema. */
  def home(spark: SparkSession, database: String): Path =
    new Path(spark.sessionState.catalog.getDatabaseMetadata(database).locationUri)

  /** The folder of a table; a `location` that is not absolute is one in the schema's folder. */
  def place(spark: SparkSession, database: String, table: String, location: String): Path = {
    val at = Option(location)
      .map(CatalogUtils.stringToURI)
      .getOrElse(spark.sessionState.catalog.defaultTablePath(name(database, table)))
    val path = new Path(home(spark, database), new Path(at))
    path.getFileSystem(spark.sessionState.newHadoopConf()).makeQualified(path)
  }

  def register(
      spark: SparkSession,
      database: String,
      table: String,
      path: String,
      managed: Boolean,
      comment: String,
      accepted: String): Unit = {
    val at = new Path(path).toUri
    val entry = CatalogTable(
      name(database, table),
      if (managed) MANAGED else EXTERNAL,
      CatalogStorageFormat.empty.copy(locationUri = Some(at)),
      new StructType,
      provider = Some("delta"),
      comment = Option(comment),
      tracksPartitionsInCatalog = true)
    val whole =
      CatalogEntry.accepting(entry, entry.identifier, DeltaLog.forTable(spark, path).update().metadata.id, accepted)
    spark.sessionState.catalog.createTable(whole, ignoreIfExists = false, validateLocation = false)
  }

  /** Makes the catalog leave the files alone when the entry is dropped; another process may have dropped it. */
  def release(spark: SparkSession, database: String, table: String): Unit = {
    val catalog = spark.sessionState.catalog
    try {
      val known = catalog.getTableMetadata(name(database, table))
      if (known.tableType == MANAGED) catalog.externalCatalog.alterTable(known.copy(tableType = EXTERNAL))
    } catch { case _: NoSuchTableException => }
  }

  private def name(database: String, table: String) = TableIdentifier(table, Some(database))
}
