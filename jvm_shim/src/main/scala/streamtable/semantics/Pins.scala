package org.apache.spark.sql.streamtable

import java.security.MessageDigest

import scala.collection.mutable

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.analysis.{
  AnalysisContext,
  PlanWithUnresolvedIdentifier,
  RelationTimeTravel,
  UnresolvedRelation,
  UnresolvedStar,
  UnresolvedStarBase,
  UnresolvedStarExceptOrReplace
}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, NullType, StructType}
import org.json4s._
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

/** A table as a text names it, until its columns are those that the text meant. */
case class PinnedRelation(child: LogicalPlan, key: String) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override lazy val resolved: Boolean = false
  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

/** A column that a text meant and that its table does not have any more. */
case class GoneColumn(column: String, now: Seq[String]) extends LeafExpression with Unevaluable {
  override def dataType: DataType = NullType
  override def nullable: Boolean = true
}

/** `st.*`, which is never equal to the star in whose place it stands: rules that change a plan would keep that. */
private class PinnedStar(of: UnresolvedStar, key: String) extends ChangedStar(of) {
  override def canEqual(other: Any): Boolean = other.isInstanceOf[PinnedStar]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override protected def changed(columns: Seq[NamedExpression]): Seq[NamedExpression] = Pins.fields(columns, key)
}

private class PinnedStarExcept(of: UnresolvedStarExceptOrReplace, key: String) extends ChangedStarExcept(of) {
  override def canEqual(other: Any): Boolean = other.isInstanceOf[PinnedStarExcept]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override protected def changed(columns: Seq[NamedExpression]): Seq[NamedExpression] = Pins.fields(columns, key)
}

/**
 * The columns of tables, by name and in order, as they were when a text was first read. From then on `*` means the same columns,
 * as does all else that takes columns by position or by absence.
 *
 * A text is the query itself, or that of a view or a function that it reads; its tables are numbered. The parser marks them, and a
 * rule puts a projection over each whose columns are others by now, before Spark looks at what is above.
 */
object Pins {

  /**
   * A frame, and the columns that its tables were read with, which pin them the next time. Also the columns that it reads and that are
   * not there, and the texts of the views and functions that it is made of.
   */
  final class Read(val frame: Object, val columns: String, val gone: String, val texts: String)

  private final class Reading(val query: String, val known: Map[String, List[String]]) {
    val found = mutable.SortedMap.empty[String, List[String]]

    /** Columns whose structs lack a field now, by name and type: how they were. */
    val reshaped = mutable.Map.empty[(String, DataType), DataType]

    /** Views in several databases may have the same text. */
    def meant(key: String, now: List[String]): List[String] = {
      val text = (AnalysisContext.get.catalogAndNamespace :+ key).map(quoteIfNeeded).mkString(".")
      found.getOrElseUpdate(text, known.getOrElse(text, now))
    }

    /** The type of a column with the fields that its structs had; none where it has that, or where a field is gone. */
    def shape(key: String, column: Attribute): Option[DataType] = {
      val was = DataType.fromDDL(meant(s"$key ${column.name}", List(column.dataType.sql)).head)
      val kept = Shaped.kept(was, column.dataType)
      if (kept.isEmpty) reshaped((column.name, column.dataType)) = was
      kept.filter(_ != column.dataType)
    }
  }

  private val current = new ThreadLocal[Reading]

  private val pinned = TreeNodeTag[Unit]("streamtable.pinned")

  /** Analyses a query with its tables' columns as they were; `known` is what a reading before this one found. */
  def read(spark: SparkSession, query: String, known: String): Read = {
    val columns = parse(known) match {
      case JObject(each) => each.collect { case (key, JArray(names)) => key -> names.collect { case JString(n) => n } }
      case _ => Nil
    }
    val reading = new Reading(query, columns.toMap)
    val outer = current.get
    current.set(reading)
    try {
      val frame = Queries.planned(spark, query)
      val found = reading.found.toList.map { case (key, names) => JField(key, JArray(names.map(JString(_)))) }
      val plan = frame.asInstanceOf[Dataset[_]].queryExecution.analyzed
      val lost = missing(plan) ++ reshaped(plan, reading)
      new Read(frame, compact(render(JObject(found))), compact(render(JArray(lost))), Texts.in(plan))
    } finally current.set(outer)
  }

  /** Where a table is joined with itself, Spark makes copies of projections, which lose the tag. */
  private def isPinned(plan: LogicalPlan): Boolean = plan match {
    case _ if plan.getTagValue(pinned).isDefined => true
    case Project(list, _: LogicalRelation) =>
      list.exists(isMade) && list.forall(column => isMade(column) || column.isInstanceOf[Attribute])
    case _ => false
  }

  private def isMade(column: NamedExpression): Boolean = column match {
    case Alias(_: Shaped | _: GoneColumn, _) => true
    case _ => false
  }

  /** For reading, not for running: tables that have the columns that they had, in that order, in place of projections over them. */
  def narrowed(plan: LogicalPlan): LogicalPlan = plan.transformUpWithSubqueries {
    case p @ Project(list, child) if isPinned(p) =>
      val columns = list.collect {
        case a: AttributeReference => a
        case a @ Alias(_: Shaped, _) => a.toAttribute.asInstanceOf[AttributeReference]
      }
      child match {
        case table: LogicalRelation if PlanReader.isRead(table) || columns.forall(table.outputSet.contains) =>
          table.copy(output = columns)
        case _ => p
      }
  }

  /** The columns that are gone and that something in `plan` reads all the same. */
  private def missing(plan: LogicalPlan): List[JObject] = {
    val (tables, others) = plan.collectWithSubqueries { case node => node }.partition(isPinned)
    val gone = tables
      .flatMap(_.expressions.collect { case a @ Alias(column: GoneColumn, _) => a.exprId -> column })
      .toMap
    val used = others.flatMap { node =>
      val byPlace = node match {
        case _: Union | _: Intersect | _: Except | _: Distinct | _: UnionLoop | _: CTERelationDef =>
          node.children.flatMap(_.output)
        case _ => Nil
      }
      val named = node.expressions.flatMap(_.collect {
        case a: Attribute => a; case OuterReference(a) => a.toAttribute
      })
      (named ++ byPlace).map(_.exprId)
    }
    val fields = others.flatMap(_.expressions.flatMap(_.collect { case field: GoneColumn => field }))
    ((used ++ plan.output.map(_.exprId)).flatMap(gone.get) ++ fields).distinct.toList.map(c =>
      ("column" -> c.column) ~ ("now" -> c.now.toList))
  }

  /** Structs that are read as a whole and lack a field now. */
  private def reshaped(plan: LogicalPlan, reading: Reading): List[JObject] =
    if (reading.reshaped.isEmpty) Nil
    else {
      val whole = Fields.wholeIn(plan)
      val columns = plan.collectWithSubqueries {
        case leaf: LeafNode => leaf.output
        case view: View => view.output
      }.flatten
      columns
        .filter(a => whole(a.exprId))
        .flatMap { a =>
          reading.reshaped
            .get((a.name, a.dataType))
            .map(was => ("column" -> a.name) ~ ("now" -> List(a.dataType.sql)) ~ ("was" -> was.sql))
        }
        .distinct
        .toList
    }

  /** `plan`, parsed from `text`, with its tables marked, where a query is being read. */
  def marked(text: String, plan: LogicalPlan): LogicalPlan =
    Option(current.get).fold(plan)(new Marking(_, text).in(plan))

  def marked(text: String, expression: Expression): Expression =
    Option(current.get).fold(expression)(new Marking(_, text).in(expression))

  private class Marking(reading: Reading, text: String) {
    private val name = if (text == reading.query) "" else digest(text)
    private var count = 0

    private def mark(relation: LogicalPlan): LogicalPlan = {
      count += 1
      PinnedRelation(relation, s"$name#$count")
    }

    def in(plan: LogicalPlan): LogicalPlan = plan match {
      case _: PinnedRelation => plan
      case _: UnresolvedRelation | _: RelationTimeTravel => mark(plan)
      case named: PlanWithUnresolvedIdentifier =>
        count += 1
        val key = s"$name#$count"
        named.copy(planBuilder = (parts, children) =>
          named.planBuilder(parts, children) match {
            case relation: UnresolvedRelation => PinnedRelation(relation, key)
            case other => other
          })
      case named: UnresolvedWith =>
        val relations = named.cteRelations.map(each => each.copy(_2 = in(each._2).asInstanceOf[SubqueryAlias]))
        named.copy(child = in(named.child), cteRelations = relations)
      case other => other.mapChildren(in).mapExpressions(in)
    }

    private def star(of: UnresolvedStarBase): Expression = {
      count += 1
      val key = s"$name#$count"
      of match {
        case all: UnresolvedStar => new PinnedStar(all, key)
        case some: UnresolvedStarExceptOrReplace => new PinnedStarExcept(some, key)
        case other => other
      }
    }

    def in(expression: Expression): Expression = expression.transform {
      case query: PlanExpression[_] =>
        query.plan match {
          case plan: LogicalPlan => query.asInstanceOf[PlanExpression[LogicalPlan]].withNewPlan(in(plan))
          case _ => query
        }
      case fields: UnresolvedStarBase if fields.target.isDefined => star(fields)
    }
  }

  private[streamtable] def digest(text: String): String =
    MessageDigest.getInstance("SHA-256").digest(text.getBytes("UTF-8")).take(8).map(b => f"$b%02x").mkString

  def inject(extensions: SparkSessionExtensions): Unit = extensions.injectResolutionRule(_ => Resolved)

  private object Resolved extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
      case PinnedRelation(child, _) if isWith(child) => child
      case PinnedRelation(child, key) if child.resolved => Option(current.get).fold(child)(pin(_, child, key))
    }
  }

  /** A name that WITH gives: what it stands for is pinned where it is defined. */
  private def isWith(plan: LogicalPlan): Boolean = plan match {
    case _: CTERelationRef | _: UnionLoopRef => true
    case SubqueryAlias(_, child) => isWith(child)
    case _ => false
  }

  private def pin(reading: Reading, relation: LogicalPlan, key: String): LogicalPlan = {
    val meant = reading.meant(key, relation.output.map(_.name).toList)
    val shapes = relation.output
      .filter(_.dataType.existsRecursively(_.isInstanceOf[StructType]))
      .flatMap(column => reading.shape(key, column).map(column.exprId -> _))
      .toMap
    val now = relation.output.map(_.name)
    // Below an alias: where a name is not found, Spark looks for it below a projection, but not below an alias.
    relation match {
      case _ if meant == now && shapes.isEmpty => relation
      case alias @ SubqueryAlias(_, child) => alias.copy(child = projected(child, meant, shapes))
      case other => SubqueryAlias(SubqueryAlias.generateSubqueryName(), projected(other, meant, shapes))
    }
  }

  /** The fields that `st.*` meant; columns of a table are those that the table was pinned to. */
  private[streamtable] def fields(expanded: Seq[NamedExpression], key: String): Seq[NamedExpression] =
    Option(current.get).filterNot(_ => expanded.forall(_.isInstanceOf[Attribute])).fold(expanded) { reading =>
      val now = expanded.map(_.name).toList
      reading.meant(key, now).map(name => expanded.find(_.name == name).getOrElse(Alias(GoneColumn(name, now), name)()))
    }

  private def projected(relation: LogicalPlan, meant: Seq[String], shapes: Map[ExprId, DataType]): LogicalPlan = {
    val now = relation.output.map(_.name)
    val projection = Project(
      meant.map { name =>
        relation.output
          .find(_.name == name)
          .orElse(relation.output.find(a => SQLConf.get.resolver(a.name, name)))
          .map(a => shapes.get(a.exprId).fold[NamedExpression](a.withName(name))(as => Alias(Shaped(a, as), name)()))
          .getOrElse(Alias(GoneColumn(name, now), name)())
      },
      relation)
    projection.setTagValue(pinned, ())
    projection
  }
}
