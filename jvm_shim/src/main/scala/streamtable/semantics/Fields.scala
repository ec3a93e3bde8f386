package org.apache.spark.sql.streamtable

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.delta.DeltaColumnMapping
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StructField, StructType}

/** Which fields of a struct a plan reads, where it nowhere reads the struct as a whole. */
private object Fields {

  def readIn(plan: LogicalPlan): Map[ExprId, Set[Seq[String]]] = {
    val (parts, whole) = seen(plan)
    parts -- whole
  }

  /** The columns that are read as a whole. */
  def wholeIn(plan: LogicalPlan): Set[ExprId] = seen(plan)._2

  private def seen(plan: LogicalPlan): (Map[ExprId, Set[Seq[String]]], Set[ExprId]) = {
    val whole = mutable.Set.from(plan.output.map(_.exprId))
    val parts = mutable.Map.empty[ExprId, Set[Seq[String]]].withDefaultValue(Set.empty)
    def see(e: Expression): Unit = path(e) match {
      case Some((column, Nil)) => whole += column
      case Some((column, names)) => parts(column) += names
      case None =>
        e match {
          case OuterReference(column) => whole += column.exprId
          case _ => e.children.foreach(see)
        }
    }
    plan.collectWithSubqueries {
      case _: LeafNode => // its expressions are its columns
      case Project(list, _) => list.filterNot(_.isInstanceOf[Attribute]).foreach(see) // others are handed on
      case node @ (_: Filter | _: Join | _: Aggregate | _: Window | _: Generate | _: SubqueryAlias | _: View | _: Sort |
          _: GlobalLimit | _: LocalLimit | _: Offset) =>
        node.expressions.foreach(see)
      case node =>
        whole ++= node.children.flatMap(_.output).map(_.exprId)
        node.expressions.foreach(see)
    }
    (parts.toMap, whole.toSet)
  }

  /** A field of a table with the fields of structs that a query means by the column. */
  def meant(field: StructField, column: Attribute): StructField =
    Shaped.kept(column.dataType, field.dataType).fold(field)(kind => field.copy(dataType = kind))

  /** The fields at `paths` below `column`, with their types and, where those are others, the names that the files hold them under. */
  def described(column: StructField, paths: Set[Seq[String]], mapped: Boolean): String = {
    def at(field: StructField, path: Seq[String]): String = {
      val name = if (mapped) s"${field.name} ${DeltaColumnMapping.getPhysicalName(field)}" else field.name
      (path, field.dataType) match {
        case (first +: rest, in: StructType) => s"$name.${at(in(first), rest)}"
        case (_, whole) => s"$name ${Shaped.plain(whole).sql}${if (mapped) stored(whole) else ""}"
      }
    }
    paths.map(at(column, _)).toSeq.sorted.mkString("; ")
  }

  /** The names that the files hold a column under. */
  def stored(column: StructField): String = DeltaColumnMapping.getPhysicalName(column) + stored(column.dataType)

  private def stored(t: DataType): String = t match {
    case s: StructType => s.fields.map(stored).mkString("(", " ", ")")
    case a: ArrayType => stored(a.elementType)
    case m: MapType => stored(m.keyType) + stored(m.valueType)
    case _ => ""
  }

  private def path(e: Expression): Option[(ExprId, Seq[String])] = e match {
    case column: Attribute => Some(column.exprId -> Nil)
    case field: GetStructField =>
      path(field.child).map { case (column, names) => column -> (names :+ field.extractFieldName) }
    case _ => None
  }
}
