package org.apache.spark.sql.delta.streamtable

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.delta.hooks.UpdateCatalog
import org.apache.spark.sql.delta.sources.DeltaSQLConf._

/**
 * Copies a table's columns and comment into the catalog, if Delta's setting asks for it. JDBC's getColumns reads nothing else.
 * Properties are left out: a definition can be longer than the metastore's fields.
 */
private[streamtable] object CatalogColumns extends Logging {

  def tell(spark: SparkSession, name: TableIdentifier): Unit = {
    val (conf, catalog) = (spark.sessionState.conf, spark.sessionState.catalog)
    if (conf.getConf(DELTA_UPDATE_CATALOG_ENABLED)) {
      try {
        val known = catalog.getTableMetadata(name)
        val snapshot = DeltaLog.forTable(spark, known).update()
        val longest = conf.getConf(DELTA_UPDATE_CATALOG_LONG_FIELD_TRUNCATION_THRESHOLD)
        val (schema, _) = UpdateCatalog.truncateSchemaIfNecessary(snapshot.schema, longest)
        if (known.schema != schema)
          catalog.externalCatalog.alterTableDataSchema(known.database, known.identifier.table, schema)
        val comment = Option(snapshot.metadata.description)
        if (known.comment != comment) catalog.alterTable(known.copy(schema = schema, comment = comment))
      } catch {
        // What was committed stays, and the next refresh tells it again.
        case NonFatal(e) => logWarning(s"the catalog was not told the columns of $name", e)
      }
    }
  }
}
