package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.StringType

/**
 * Expressions that fail on values which a query keeps away from them by what it joins: divisions, casts of text, indexes, assertions.
 * Others may fail as well, as by an overflow; these are the ones for which it is worth a step that takes such rows away first.
 */
private object Failing {
  def apply(e: Expression): Boolean = e.exists {
    case division: BinaryArithmetic with DivModLike => !division.right.foldable
    case modulo: Pmod => !modulo.right.foldable
    case cast: Cast =>
      cast.evalMode == EvalMode.ANSI && !cast.child.foldable &&
      cast.child.dataType.isInstanceOf[StringType] && !cast.dataType.isInstanceOf[StringType]
    case _: ElementAt | _: GetArrayItem | _: Elt | _: MakeDate | _: MakeTimestamp | _: RaiseError => true
    case _ => false
  }
}
