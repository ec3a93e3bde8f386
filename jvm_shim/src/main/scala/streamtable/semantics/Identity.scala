package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.catalyst.expressions.variant.SchemaOfVariant
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/**
 * `st_identity(v)` is a value in a form in which `<=>` and GROUP BY mean: the same value, at any depth. Spark's own equality takes the two
 * zeros for one, and what a collation holds equal; it does not compare maps, intervals of months and days, and variants.
 */
private object Identity {
  val identifier: FunctionIdentifier = FunctionIdentifier("st_identity")
  val info: ExpressionInfo = new ExpressionInfo(getClass.getName, "st_identity")

  def build(arguments: Seq[Expression]): Expression = of(arguments.head)

  private def of(e: Expression): Expression = if (isIdentity(e.dataType)) e
  else
    e.dataType match {
      case FloatType => bits(e, classOf[java.lang.Float], "floatToIntBits", IntegerType)
      case DoubleType => bits(e, classOf[java.lang.Double], "doubleToLongBits", LongType)
      case _: StringType => Cast(e, BinaryType)
      case CalendarIntervalType => Cast(e, StringType)
      case _: VariantType =>
        struct(e, Seq(SchemaOfVariant(e), StructsToJson(Map.empty, e, Some(SQLConf.get.sessionLocalTimeZone))))
      case ArrayType(element, mayBeNull) =>
        val each = NamedLambdaVariable("each", element, mayBeNull)
        ArrayTransform(e, LambdaFunction(of(each), Seq(each)))
      case _: MapType => of(MapEntries(e))
      case StructType(fields) => struct(e, fields.indices.map(n => of(GetStructField(e, n))))
      case other => throw new IllegalArgumentException(s"values of type ${other.sql} cannot be told apart")
    }

  /** Whether equal values of the type are the same. */
  def isIdentity(t: DataType): Boolean = !t.existsRecursively {
    case s: StringType => s.collationId != StringType.collationId
    case FloatType | DoubleType | CalendarIntervalType => true
    case t => t.isInstanceOf[MapType] || t.isInstanceOf[VariantType] || Versions.isSpatial(t)
  }

  /** All NaNs have the same. */
  private def bits(e: Expression, of: Class[_], function: String, as: DataType): Expression =
    StaticInvoke(of, as, function, Seq(e), Seq(e.dataType), returnNullable = false)

  private def struct(e: Expression, values: Seq[Expression]): Expression = {
    val made = CreateNamedStruct(values.zipWithIndex.flatMap { case (value, n) => Seq(Literal(s"v$n"), value) })
    if (e.nullable) If(IsNull(e), Literal(null, made.dataType), made) else made
  }
}
