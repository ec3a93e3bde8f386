package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.analysis.{SQLFunctionNode, SQLScalarFunction}
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, SQLFunction}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, View}
import org.json4s.{JField, JObject, JString}
import org.json4s.jackson.JsonMethods.{compact, render}

/** What views and functions of the catalog mean: their texts, and what these are read with. */
private object Texts {

  /** Those that a plan is made of, by name, as digests: a JSON object. */
  def in(plan: LogicalPlan): String = {
    val found = plan.collectWithSubqueries { case node =>
      node.expressions.flatMap(_.collect { case f: SQLScalarFunction => of(f.function) }) ++
        Some(node).collect {
          case f: SQLFunctionNode => of(f.function)
          case v: View if !v.isTempView => of(v.desc)
        }
    }.flatten
    compact(render(JObject(found.toMap.toList.map { case (name, text) => JField(name, JString(Pins.digest(text))) })))
  }

  private def of(f: SQLFunction): (String, String) = {
    val returned = f.returnType.fold(_.json, _.json)
    s"function ${f.name.unquotedString}" ->
      Seq[Any](f.exprText, f.queryText, f.inputParam.map(_.json), returned, f.properties.toSeq.sorted).toString
  }

  /**
   * Columns of a view are found by their names, so that only those with names of its own are part of its meaning. Delta's
   * settings are not: Delta notes each commit of a session there.
   */
  private def of(v: CatalogTable): (String, String) = {
    val renamed = v.schema.fieldNames.toSeq.zip(v.viewQueryColumnNames).filter { case (own, of) => own != of }
    val settings = v.viewSQLConfigs.toSeq.filterNot(_._1.startsWith("spark.databricks.")).sorted
    s"view ${v.identifier.unquotedString}" ->
      Seq[Any](v.viewText, v.viewCatalogAndNamespace, settings, v.collation, renamed).toString
  }
}
