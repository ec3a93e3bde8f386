package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/**
 * Expressions that may give different values for equal ones: for the two zeros of floats, for spellings under a collation. Comparisons
 * give the same. So does arithmetic, but for a division: the zeros that it gives are equal again.
 */
private object Telling {
  def apply(e: Expression): Boolean =
    e.children.exists(Telling(_)) || !isFair(e) && e.children.exists(c => c.references.nonEmpty && !isExact(c.dataType))

  private def isFair(e: Expression): Boolean = e match {
    case _: BinaryComparison | _: In | _: InSet | _: IsNull | _: IsNotNull | _: IsNaN => true
    case _: If | _: CaseWhen | _: Coalesce | _: Alias => true
    case _: Add | _: Subtract | _: Multiply | _: UnaryMinus | _: Abs => true
    case cast: Cast =>
      cast.child.dataType.isInstanceOf[FractionalType] && Seq(FloatType, DoubleType).contains(cast.dataType)
    case _ => false
  }

  /** Whether equal values of the type have equal bytes. */
  def isExact(t: DataType): Boolean = !t.existsRecursively {
    case s: StringType => s != StringType
    case _: MapType | _: VariantType | _: FloatType | _: DoubleType => true
    case _ => false
  }
}
