package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Cast, Expression, ExpressionInfo, Literal}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, CodeGenerator, ExprCode, JavaCode}
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.DataType

/**
 * A literal that generated code refers to. Spark's own literals write numbers, dates and times into the code. Two refreshes with
 * different bounds therefore share their code, and it is compiled once, by Java's compilers too. Everything else takes it for the
 * literal that it is: rules, Parquet's reader, Delta's data skipping.
 */
final class ReferredLiteral(value: Any, dataType: DataType) extends Literal(value, dataType) {

  override def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val javaType = CodeGenerator.javaType(dataType)
    if (value == null || !CodeGenerator.isPrimitiveType(javaType)) super.doGenCode(ctx, ev)
    else {
      val boxed = ctx.addReferenceObj("value", value, CodeGenerator.boxedType(javaType))
      val field = ctx.addMutableState(javaType, "value", name => s"$name = $boxed.${javaType}Value();")
      ExprCode.forNonNullValue(JavaCode.global(field, dataType))
    }
  }
}

/** `st_value('text', 'type')` is the text cast to the type, as such a literal. */
object ReferredLiteral {
  val identifier: FunctionIdentifier = FunctionIdentifier("st_value")
  val info: ExpressionInfo = new ExpressionInfo(getClass.getName, "st_value")

  def build(arguments: Seq[Expression]): Expression = {
    val dataType = CatalystSqlParser.parseDataType(arguments(1).eval().toString)
    val value = Cast(arguments.head, dataType, Some(SQLConf.get.sessionLocalTimeZone)).eval()
    if (Patches.isOn("literals by reference")) new ReferredLiteral(value, dataType) else Literal(value, dataType)
  }
}
