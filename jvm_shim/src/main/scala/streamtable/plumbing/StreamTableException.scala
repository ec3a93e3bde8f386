package org.apache.spark.sql.streamtable

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.trees.Origin

/**
 * An error of ours in Spark's clothes: Connect, JDBC and JVM callers read condition and SQLSTATE from its class.
 *
 * SQLSTATE and template are given, or Spark would look them up by the condition in its own list, which has no room for
 * more.
 *
 * @param parameters
 *   `reason` and `hint`; and `id`, the key of the original in the Python process, unless it was raised here
 */
class StreamTableException(
    condition: String,
    sqlState: String,
    text: String,
    parameters: Map[String, String],
    cause: Option[Throwable] = None)
    extends ForeignCondition(condition, sqlState, text, parameters, cause) {

  /** Itself: Spark would make a copy without the SQLSTATE, to say where in the query it was raised. */
  override def withPosition(origin: Origin): AnalysisException = this
}

object StreamTableException {

  /** Builds an error that this shim raises itself, in the wording order of Python's errors: what, then what to do. */
  def apply(condition: String, sqlState: String, reason: String, hint: String, cause: Option[Throwable] = None) =
    new StreamTableException(
      condition,
      sqlState,
      s"[$condition] $reason\nWhat to do: $hint\nSQLSTATE: $sqlState",
      Map("reason" -> reason, "hint" -> hint),
      cause)
}
