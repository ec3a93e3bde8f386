package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.analysis.ResolvedTable
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.delta.catalog.DeltaTableV2

/** What the catalog accepted of a table is no option of it: what shows the properties of a table leaves it out. */
object Shown extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case shows @ (_: ShowTableProperties | _: DescribeRelation) => shows.mapChildren(shown)
    case other => other
  }

  private def shown(child: LogicalPlan): LogicalPlan = child match {
    case resolved @ ResolvedTable(_, _, delta: DeltaTableV2, _)
        if delta.catalogTable.exists(entry => CatalogEntry.shown(entry) != entry) =>
      resolved.copy(table = delta.copy(catalogTable = delta.catalogTable.map(CatalogEntry.shown)))
    case other => other
  }
}
