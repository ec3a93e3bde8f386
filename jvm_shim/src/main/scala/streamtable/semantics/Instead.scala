package org.apache.spark.sql.streamtable

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace
import org.apache.spark.sql.catalyst.expressions.{Attribute, Literal}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.QuotingUtils
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.CatalogManager.SESSION_CATALOG_NAME
import org.apache.spark.sql.execution.command.{DropDatabaseCommand, LeafRunnableCommand}
import org.apache.spark.sql.types.{StringType, StructType}

/** Statements of Spark that are good for a stream table as well: what is carried out instead. */
private object Instead {

  /** The plan of what Spark's statement means for the stream table of this name, if it means anything. */
  def of(session: SparkSession, node: LogicalPlan, table: TableIdentifier): Option[LogicalPlan] =
    if (replacesInWords(node)) Some(AccompaniedCommand(node, "CREATE OR REPLACE TABLE", full(table), Nil))
    else {
      val name = full(table).map(QuotingUtils.quoteIdentifier).mkString(".")
      inOurs(node, name).map(StreamTableCommand.parse(session, _))
    }

  /** CREATE OR REPLACE TABLE as a statement. A DataFrame that overwrites a table says nothing of what else the table is. */
  private def replacesInWords(node: LogicalPlan): Boolean = node match {
    case w: ReplaceTable => w.orCreate && w.name.origin.sqlText.isDefined && isDelta(w.tableSpec)
    case w: ReplaceTableAsSelect => w.orCreate && w.name.origin.sqlText.isDefined && isDelta(w.tableSpec)
    case _ => false
  }

  private def isDelta(spec: TableSpecBase) = spec.provider.exists(_.equalsIgnoreCase("delta"))

  /**
   * DROP SCHEMA ... CASCADE of a schema with stream tables or objects of ours, which are dropped as they are dropped elsewhere; the stream
   * tables are told. Or of one whose tables are not to be dropped while stream tables read them.
   */
  def ofSchema(session: SparkSession, node: LogicalPlan): Option[LogicalPlan] = for {
    schema <- droppedWhole(node)
    known <- Places.schema(session, schema)
    entries = Places.entries(session, Seq(known.name)).toSeq
    holds = entries.exists(CatalogEntry.isStreamTable(_, None))
    if holds || entries.exists(CatalogEntry.noun(_).isDefined) || DirectWriteCheck.blocksSourceDdl(session)
  } yield AccompaniedCommand(node, "DROP SCHEMA", Seq(SESSION_CATALOG_NAME, known.name), if (holds) dropped else Nil)

  private def droppedWhole(node: LogicalPlan): Option[String] = node match {
    case DropNamespace(ResolvedNamespace(catalog, Seq(schema), _), _, true) if catalog.name == SESSION_CATALOG_NAME =>
      Some(schema)
    case DropDatabaseCommand(schema, _, true) => Some(schema)
    case _ => None
  }

  private lazy val dropped =
    DataTypeUtils.toAttributes(new StructType().add("name", StringType).add("status", StringType))

  /** The statement of ours that says the same of a stream table. */
  private def inOurs(node: LogicalPlan, name: String): Option[String] = node match {
    case _: DropTable => Some(s"DROP STREAM TABLE $name")
    case w: SetTableProperties =>
      val pairs = w.properties.toSeq.map { case (key, value) => s"${text(key)} = ${text(value)}" }
      Some(s"ALTER STREAM TABLE $name SET TBLPROPERTIES ${listed(pairs)}")
    case w: UnsetTableProperties =>
      val exists = if (w.ifExists) "IF EXISTS " else ""
      Some(s"ALTER STREAM TABLE $name UNSET TBLPROPERTIES $exists${listed(w.propertyKeys.map(text))}")
    case w: CommentOnTable => Some(s"ALTER STREAM TABLE $name SET COMMENT ${text(w.comment)}")
    case AlterColumns(_, specs) if specs.forall(comments) =>
      val columns =
        specs.map(s => s"${QuotingUtils.quoteIdentifier(s.column.name.head)} COMMENT ${text(s.newComment.get)}")
      Some(columns.mkString(s"ALTER STREAM TABLE $name ALTER COLUMN ", ", ", ""))
    case _ => None
  }

  /** Whether nothing but the comment of a column is changed: a statement changes one thing of each. */
  private def comments(spec: AlterColumnSpec): Boolean =
    spec.newComment.isDefined && spec.column.name.size == 1 && spec
      .copy(newComment = None)
      .productIterator
      .drop(1)
      .forall {
        case None | false => true
        case _ => false // a type, a place, a default
      }

  private def full(table: TableIdentifier) = Seq(SESSION_CATALOG_NAME) ++ table.database ++ Seq(table.table)
  private def text(value: String) = Literal(value).sql
  private def listed(items: Seq[String]) = items.mkString("(", ", ", ")")
}

/** A statement of Spark, which Python has carried out within what it does before it and when it is done. */
case class AccompaniedCommand(
    statement: LogicalPlan,
    operation: String,
    name: Seq[String],
    override val output: Seq[Attribute])
    extends LeafRunnableCommand {

  override def innerChildren: Seq[QueryPlan[_]] = Seq(statement)

  override def run(session: SparkSession): Seq[Row] =
    Answers.rows(Handlers.accompany(session, operation, name, new Accompanied(session, statement)), output)
}

/** Carries out a statement of Spark, as the engine. */
final class Accompanied(session: SparkSession, statement: LogicalPlan) extends Runnable {

  override def run(): Unit =
    DirectWriteCheck.asEngine(session)(Dataset.ofRows(session.asInstanceOf[ClassicSession], statement))
}
