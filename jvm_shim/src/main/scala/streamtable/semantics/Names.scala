package org.apache.spark.sql.streamtable

import scala.util.matching.Regex

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Expand, LogicalPlan}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded

/**
 * Names that Spark makes of expressions, as for the calls of PIVOT. They hold the tables of columns, which may be renamed, and the
 * numbers of attributes, which differ each time. A plan is the same with other names.
 */
private object Names {

  /** The plan whose inner columns have names without tables and numbers. Its own columns keep theirs. */
  def plain(plan: LogicalPlan): LogicalPlan = {
    val found = plan.collectWithSubqueries { case node => node.expressions.flatMap(_.collect { case e => e }) }.flatten
    val told = parts(found.collect { case a: AttributeReference if a.qualifier.nonEmpty => a.qualifier }.distinct)
    val own = plan.output.map(_.exprId).toSet
    // GROUPING SETS over a computed key: Spark 4.0 gives the columns of the sets the name of the key below them.
    val ofSets = plan.collectWithSubqueries { case x: Expand => x.output.filterNot(x.child.outputSet.contains) }.flatten
    val names = (found.collect { case a: Alias => a.toAttribute } ++ ofSets)
      .collect { case a if isMade(a.name) && !own(a.exprId) => a.exprId -> told.replaceAllIn(a.name, "") -> a.name }
      .collect { case ((id, bare), name) if bare != name => id -> bare }
      .toMap
    if (names.isEmpty) plan
    else
      plan.transformAllExpressionsWithSubqueries {
        case a: Alias if names.contains(a.exprId) =>
          Alias(a.child, names(a.exprId))(a.exprId, a.qualifier, a.explicitMetadata, a.nonInheritableMetadataKeys)
        case a: AttributeReference if names.contains(a.exprId) => a.withName(names(a.exprId))
        case OuterReference(a: AttributeReference) if names.contains(a.exprId) =>
          OuterReference(a.withName(names(a.exprId)))
      }
  }

  /** Whether a name looks like the text of an expression. */
  private def isMade(name: String): Boolean = name.contains('(') || name.contains('#')

  /** What names do without: these tables, where a column is after them, and numbers of attributes. */
  private def parts(tables: Seq[Seq[String]]): Regex = {
    val spelled = tables.map(_.map(quoteIfNeeded).mkString("", ".", ".")).sortBy(-_.length)
    (spelled.map(table => "(?<![\\w`.])" + Regex.quote(table)) :+ "#\\d+L?").mkString("|").r
  }
}
