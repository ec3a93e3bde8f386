package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._
import scala.util.Try

/**
 * Expressions that may give different values for equal ones: for the two zeros of floats, for spellings under a collation. Comparisons
 * give the same, and so does arithmetic, whose zeros are equal again. A division by a zero does not, nor does a text.
 */
private object Telling {

  /** The columns of whose equal values `e` may give different ones. */
  def apply(e: Expression): AttributeSet = {
    // Partitions see equal values as equal, and Ties orders them; the specification of a window has no type.
    val parts = e.children.filterNot(_.isInstanceOf[WindowSpecDefinition])
    val below = AttributeSet(parts.flatMap(Telling(_)))
    if (isFair(e)) below else below ++ AttributeSet(parts.filterNot(c => isExact(c.dataType)).flatMap(_.references))
  }

  private def isFair(e: Expression): Boolean = e match {
    case _: BinaryComparison | _: In | _: InSet | _: IsNull | _: IsNotNull | _: IsNaN => true
    case _: If | _: CaseWhen | _: Coalesce | _: Alias | _: GetStructField | _: GetArrayItem => true
    case _: Add | _: Subtract | _: Multiply | _: UnaryMinus | _: Abs => true
    case _: Floor | _: Ceil | _: Round | _: BRound => true
    case division: BinaryArithmetic with DivModLike => isNotZero(division.right)
    case cast: Cast => cast.child.dataType.isInstanceOf[FractionalType] && cast.dataType.isInstanceOf[NumericType]
    case _ => false
  }

  /** A constant may be an error, which is the query's own, and no matter of ours. */
  private def isNotZero(e: Expression): Boolean = e.foldable && Try(e.eval()).toOption.exists {
    case value: Double => value != 0
    case value: Float => value != 0
    case _ => false
  }

  /** Whether equal values of the type have equal bytes. */
  def isExact(t: DataType): Boolean = !t.existsRecursively {
    case s: StringType => s != StringType
    case _: MapType | _: VariantType | _: FloatType | _: DoubleType => true
    case _ => false
  }
}
