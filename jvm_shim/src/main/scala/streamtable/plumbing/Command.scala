package org.apache.spark.sql.streamtable

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types._

/** One of our statements, already read by Python; carried out eagerly, as Spark carries out every command. */
case class StreamTableCommand(sql: String, override val output: Seq[Attribute]) extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] =
    Handlers.run(session, sql).fold(Answers.rows(_, output), _.asScala.toSeq)
}

object StreamTableCommand {

  /** Has Python read `sql`, so that its errors are raised where Spark raises parse errors. */
  def parse(session: SparkSession, sql: String): StreamTableCommand =
    StreamTableCommand(sql, Answers.columns(Handlers.describe(session, sql)))
}

/** Python's answers as columns and rows. */
private object Answers {

  def columns(schema: JsonNode): Seq[Attribute] =
    DataTypeUtils.toAttributes(DataType.fromJson(schema.toString).asInstanceOf[StructType])

  def rows(answer: JsonNode, columns: Seq[Attribute]): Seq[Row] =
    elements(answer).map { row =>
      Row.fromSeq(elements(row).zip(columns).map { case (node, column) => value(node, column.dataType) })
    }

  private def elements(node: JsonNode): Seq[JsonNode] = (0 until node.size).map(node.get)

  // By the declared type, never by the JSON form: a small number of a bigint column is no Integer.
  private def value(node: JsonNode, dataType: DataType): Any = dataType match {
    case _ if node.isNull => null
    case StringType => node.asText
    case BooleanType => node.asBoolean
    case IntegerType => node.asInt
    case LongType => node.asLong
    case _: DecimalType => new java.math.BigDecimal(node.asText)
    case DoubleType => node.asText.toDouble // also "NaN" and "Infinity", which JSON has no numbers for
    case TimestampType => DateTimeUtils.microsToInstant(node.asLong)
    case other => throw new IllegalArgumentException(s"an answer's column cannot be of type ${other.sql}")
  }
}
