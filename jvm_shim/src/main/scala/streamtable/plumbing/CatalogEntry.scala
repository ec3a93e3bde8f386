package org.apache.spark.sql.streamtable

import scala.util.Try

import org.json4s._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.delta.DeltaLog

/**
 * What the session's catalog says of a table beside its name and place: which definitions were accepted, each for a name and for the
 * id that Delta gave the table.
 *
 * It is among the properties of the storage. Delta copies a table's own properties, which whoever may write its folder can change, over
 * those of the entry, but never over these. Spark copies these with an entry (CREATE TABLE LIKE), and keeps them when it renames one: by
 * name and id a copy is none.
 */
object CatalogEntry {

  private val property = "streamtable.accepted"

  /** What was accepted for the name that the entry has, as a JSON array of objects. */
  def accepted(entry: CatalogTable): JArray =
    JArray(kept(entry).filter(each => each \ "name" == named(entry.identifier)))

  /**
   * Whether a stream table's definition was accepted for the name of the entry and, if given, for the id of the table. An entry
   * that cannot be read counts as one.
   */
  def isStreamTable(entry: CatalogTable, table: Option[String]): Boolean =
    entry.storage.properties.get(property).exists(text => Try(parse(text)).isFailure) ||
      accepted(entry).arr.exists(each =>
        each \ "parts" \ "streamtable.format" != JNothing && table.forall(each \ "table" == JString(_)))

  /** What the entry is by a definition that was accepted for its name: a stream table, or an object such as a queue. */
  def noun(entry: CatalogTable): Option[String] =
    if (isStreamTable(entry, None)) Some("stream table")
    else
      accepted(entry).arr
        .flatMap(each => (each \ "parts") match { case JObject(parts) => parts.map(_._1); case _ => Nil })
        .collectFirst { case key if key.startsWith(objects) => key.stripPrefix(objects).replace('_', ' ') }

  private val objects = "streamtable.object."

  /** The entry as statements show it that show a table. */
  def shown(entry: CatalogTable): CatalogTable =
    entry.copy(storage = entry.storage.copy(properties = entry.storage.properties - property))

  /** Adds to what is accepted of a table, for its own name or the one that it will have, and takes away what is listed. */
  def accept(spark: SparkSession, table: TableIdentifier, as: TableIdentifier, add: String, remove: String): Unit =
    synchronized {
      val catalog = spark.sessionState.catalog
      val entry = catalog.getTableMetadata(table)
      val changed = accepting(entry, as, DeltaLog.forTable(spark, entry).update().metadata.id, add, remove)
      if (changed != entry) catalog.alterTable(changed)
    }

  /** The entry of a table, whose id is given, that accepts `add` for a name, and no more what is listed in `remove`. */
  def accepting(
      entry: CatalogTable,
      as: TableIdentifier,
      table: => String,
      add: String,
      remove: String = "[]"): CatalogTable = {
    val gone = parse(remove).children
    val added = parse(add).children.map(_.merge(JObject("name" -> named(as), "table" -> JString(table))))
    val (own, others) = kept(entry).partition(_ \ "name" == named(entry.identifier))
    // What a rename left under the other name is of no use later.
    val after = others.takeRight(2) ++ own.filterNot(each => gone.contains(each \ "token")) ++ added
    val properties = entry.storage.properties + (property -> compact(render(JArray(after))))
    entry.copy(storage = entry.storage.copy(properties = properties))
  }

  private def kept(entry: CatalogTable): List[JValue] =
    entry.storage.properties.get(property).flatMap(text => Try(parse(text)).toOption).map(_.children).getOrElse(Nil)

  /** The metastore keeps names in lower case, whatever a statement writes. */
  private def named(table: TableIdentifier): JValue =
    JArray((table.database.toList :+ table.table).map(part => JString(part.toLowerCase(java.util.Locale.ROOT))))
}
