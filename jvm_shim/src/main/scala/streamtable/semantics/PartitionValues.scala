package org.apache.spark.sql.streamtable

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.DEFAULT_PARTITION_NAME
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/**
 * `st_partition(v, 'column')` is v where Delta gives it back as it is. The log holds the values of partition columns as text. It
 * cannot hold an empty text, bytes that are no UTF-8, or the second of two hours of one name: such a value is an error here.
 */
private[sql] object PartitionValues {
  val identifier: FunctionIdentifier = FunctionIdentifier("st_partition")
  val info: ExpressionInfo = new ExpressionInfo(getClass.getName, "st_partition")

  def build(arguments: Seq[Expression]): Expression = checked(arguments.head, arguments(1).eval().toString)

  /** The rows, which fail where a value of a partition column is not one that Delta gives back. */
  def checked(rows: DataFrame, columns: Seq[String]): DataFrame = {
    val (plan, resolver) = (rows.queryExecution.analyzed, SQLConf.get.resolver)
    val list = plan.output.map(a =>
      columns.find(resolver(_, a.name)).fold[NamedExpression](a)(column => Alias(checked(a, column), a.name)()))
    if (list == plan.output) rows
    else Dataset.ofRows(rows.sparkSession.asInstanceOf[org.apache.spark.sql.classic.SparkSession], Project(list, plan))
  }

  private def checked(value: Expression, column: String): Expression = {
    val shown = value.dataType match {
      case BinaryType => Concat(Seq(Literal("X'"), Hex(value), Literal("'")))
      case _ => Concat(Seq(Literal("'"), text(value), Literal("'")))
    }
    val message = Concat(
      Seq(
        Literal(s"the column $column has the value "),
        shown,
        Literal(
          ", which Delta would not give back as the value of a partition: leave the column out of PARTITIONED BY")))
    val error = RaiseError(
      Literal("USER_RAISED_EXCEPTION"),
      CreateMap(Seq(Literal("errorMessage"), message), useStringTypeWhenEmpty = true),
      value.dataType)
    If(Or(IsNull(value), isGivenBack(value)), value, error)
  }

  private def isGivenBack(value: Expression): Expression = value.dataType match {
    case _: StringType => isText(value)
    case BinaryType => isText(Cast(value, StringType))
    case t @ (TimestampType | TimestampNTZType) =>
      val year = Year(Cast(value, DateType, zone))
      And(And(GreaterThan(year, Literal(0)), LessThan(year, Literal(10000))), reads(value, t))
    case t => reads(value, t)
  }

  private def isText(value: Expression): Expression =
    And(IsValidUTF8(value), Not(In(Cast(value, StringType), Seq(Literal(""), Literal(DEFAULT_PARTITION_NAME)))))

  private def reads(value: Expression, as: DataType): Expression =
    EqualNullSafe(Cast(text(value), as, zone, EvalMode.TRY), value)

  private def text(value: Expression): Expression = Cast(value, StringType, zone)

  private def zone: Option[String] = Some(SQLConf.get.sessionLocalTimeZone)
}
