package org.apache.spark.sql.streamtable

import java.util.Locale

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{
  RelationTimeTravel,
  SQLFunctionNode,
  SQLScalarFunction,
  UnresolvedRelation
}
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.optimizer.EliminateSQLFunctionNode
import org.apache.spark.sql.catalyst.plans.ExistenceJoin
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.delta.{DeltaLog, NoMapping}
import org.apache.spark.sql.delta.actions.Metadata
import org.apache.spark.sql.delta.files.TahoeLogFileIndex
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, DecimalType, IntegerType, MapType}
import org.json4s._
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, render}

/**
 * Writes the plan, and the facts about each expression that only Spark knows.
 *
 * Attributes are named `c<exprId>`, unique in the whole plan. Every expression that is more than an attribute is kept in the
 * [[ExpressionRegistry]] and written as its number and its inputs. An operator that is not spelt out is handed over by name and
 * children.
 */
object PlanReader {

  /** Reads `frame`'s analysed plan under the name `id`; its expressions stay available to `st_expr` until `ExpressionRegistry.release`. */
  def read(frame: Object, id: String): String = frame.asInstanceOf[Dataset[_]].sparkSession.withActive {
    val execution = frame.asInstanceOf[Dataset[_]].queryExecution
    val written = execution.analyzed
    written.collectWithSubqueries {
      case program: ScriptTransformation => throw Queries.runs(program.script)
      case DeltaSource(relation, index, _) if relation.output.exists(a => MetadataAttribute.isValid(a.metadata)) =>
        throw Queries.readsMetadata(
          relation.catalogTable.fold(s"delta.`${index.deltaLog.dataPath}`")(_.identifier.unquotedString))
    }
    if (!Versions.runsRecursion) written.collectWithSubqueries { case _: UnionLoop => throw Queries.recursive }
    // What a function of the catalog computes, instead of its name: another text of it is another plan.
    val analyzed = EliminateSQLFunctionNode(written)
    val reading = new ExpressionRegistry.Reading(id)
    val views = analyzed.collectWithSubqueries { case v: View => v }
    val joined = SubqueriesAsJoins(Seeds.one(Ties.broken(Pins.narrowed(analyzed))))
    val sessions = SessionWindows.written(joined)
    val plan = Names.plain(Clock.asColumn(sessions.getOrElse(joined)))
    val obstacles = Known.obstacles(plan) ++ sessions.left.toSeq.map(Known.obstacle("Session window", _))
    // Everything that decides the result, subqueries included: tables with versions, the clock, and what changes without either.
    val unversioned = analyzed.collectWithSubqueries {
      case DeltaSource(_, _, _) | _: OneRowRelation |
          _: LocalRelation | _: Range | _: CTERelationRef | _: UnionLoopRef =>
        Nil
      case leaf if leaf.children.isEmpty => Seq(sourceName(leaf).getOrElse(leaf.nodeName))
      case other => other.expressions.filterNot(Clock.isRepeatable).map(Meaning.text)
    }.flatten
    val travels = movingTravels(execution.logical, views, execution.sparkSession)
    val json = ("sources" -> sourcesOf(analyzed)) ~
      ("unversioned" -> (unversioned ++ travels).distinct.toList) ~ ("clock" -> Clock.granularity(analyzed)) ~
      ("plan" -> new PlanReader(reading, partsIn(plan)).node(plan)) ~
      ("obstacles" -> Option(obstacles.toList).filter(_.nonEmpty)) ~
      ("functions" -> functionsOf(written)) ~
      ("views" -> views.filterNot(_.isTempView).map(_.desc.identifier.unquotedString).distinct.toList) ~
      ("temporary_views" -> views.filter(_.isTempView).map(_.desc.identifier.table).distinct.toList)
    ExpressionRegistry.keep(reading)
    compact(render(json))
  }

  /** The instants of TIMESTAMP AS OF that are not written as a literal: another one whenever the query is analysed. */
  private def movingTravels(query: LogicalPlan, views: Seq[View], spark: SparkSession): Seq[String] = {
    val texts = views.flatMap(_.desc.viewText).map(spark.sessionState.sqlParser.parsePlan)
    def isWritten(e: Expression): Boolean = e match {
      case _: Literal => true
      case Cast(child, _, _, _) => isWritten(child)
      case _ => false
    }
    (query +: texts).flatMap(_.collectWithSubqueries {
      case RelationTimeTravel(_, Some(instant), _) if !isWritten(instant) => s"TIMESTAMP AS OF ${instant.sql}"
    })
  }

  /** The functions of the catalog whose text became part of the plan, with those that they call. */
  private def functionsOf(plan: LogicalPlan): List[String] = plan
    .collectWithSubqueries { case node =>
      val called = node.expressions.flatMap(_.collect { case f: SQLScalarFunction => f.function.name })
      called ++ Some(node).collect { case f: SQLFunctionNode => f.function.name }
    }
    .flatten
    .map(_.unquotedString)
    .distinct
    .toList

  private[streamtable] def sourcesOf(plan: LogicalPlan): List[JObject] = plan.collectWithSubqueries {
    case DeltaSource(relation, index, _) if !index.isTimeTravelQuery =>
      ("path" -> index.deltaLog.dataPath.toString) ~ ("table" -> relation.catalogTable.map(
        _.identifier.unquotedString)) ~ ("table_id" -> index.metadata.id)
  }.toList

  /** Names of the tables of `frame` that are other ones since it was analysed, or have a column of another type or name in the files. */
  def moved(frame: Object): String = {
    val plan = frame.asInstanceOf[Dataset[_]].queryExecution.analyzed
    val found = plan
      .collectWithSubqueries {
        case DeltaSource(relation, index, files) if isRead(relation) =>
          val now = DeltaLog.forTable(files.sparkSession, index.deltaLog.dataPath).unsafeVolatileSnapshot.metadata
          val (before, after) = (columns(index.metadata), columns(now))
          if (index.metadata.id == now.id && relation.output.map(_.name).forall(a => before.get(a) == after.get(a)))
            None
          else Some(relation.catalogTable.fold(index.deltaLog.dataPath.toString)(_.identifier.unquotedString))
      }
      .flatten
      .distinct
    compact(render(JArray(found.toList.map(JString(_)))))
  }

  /** What decides which values a query reads in a column: its names in the files, and its type with what stands beside it. */
  private case class AsStored(names: String, kind: DataType, nullable: Boolean, written: Option[String])

  private def columns(of: Metadata): Map[String, AsStored] = of.schema.fields.map { f =>
    f.name -> AsStored(
      Fields.stored(f),
      Shaped.plain(f.dataType),
      f.nullable,
      CharVarcharUtils.getRawTypeString(f.metadata))
  }.toMap

  /** Where the text of a query names tables, other than what WITH calls so: parts of the name, first and last character. */
  def references(spark: SparkSession, query: String): String = {
    def in(plan: LogicalPlan, ctes: Set[String]): Seq[UnresolvedRelation] = plan match {
      case UnresolvedRelation(Seq(name), _, _) if ctes(name.toLowerCase(Locale.ROOT)) => Nil
      case relation: UnresolvedRelation => Seq(relation)
      case named: UnresolvedWith =>
        // Each sees those before it, and itself where it is recursive.
        val names = named.cteRelations.map(_._1.toLowerCase(Locale.ROOT))
        val seen = names.indices.map(i => ctes ++ names.take(if (named.allowRecursion) i + 1 else i))
        named.cteRelations.map(_._2).zip(seen).flatMap { case (cte, names) => in(cte, names) } ++
          in(named.child, ctes ++ names)
      case other => (other.children ++ other.subqueries).flatMap(in(_, ctes))
    }
    val found = for {
      relation <- in(Queries.parsed(spark, query), Set.empty)
      start <- relation.origin.startIndex
      stop <- relation.origin.stopIndex
    } yield JArray(List(relation.multipartIdentifier.toList, start, stop))
    compact(render(JArray(found.toList)))
  }

  /** A constant relation (VALUES, range) as a frame; columns are named as in the reading. */
  def leaf(spark: SparkSession, id: String, n: Int): Object = {
    val plan = ExpressionRegistry.reading(id).leaf(n)
    Dataset.ofRows(
      spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession],
      Project(plan.output.map(a => Alias(a, name(a))()), plan))
  }

  /** Of structs of tables that `plan` reads by their fields alone: these. */
  private def partsIn(plan: LogicalPlan): Map[ExprId, String] = {
    val read = Fields.readIn(plan)
    plan
      .collectWithSubqueries { case DeltaSource(relation, index, _) =>
        val metadata = index.getSnapshot.metadata
        for {
          column <- relation.output
          paths <- read.get(column.exprId)
          field <- metadata.schema.fields.find(_.name == column.name)
        } yield column.exprId -> Fields
          .described(Fields.meant(field, column), paths, metadata.columnMappingMode != NoMapping)
      }
      .flatten
      .toMap
  }

  /** What a table is called that is not Delta's. */
  private[streamtable] def sourceName(plan: LogicalPlan): Option[String] = plan match {
    case LogicalRelation(_, _, Some(table), _, _) => Some(table.identifier.unquotedString)
    case LogicalRelation(files: HadoopFsRelation, _, _, _, _) => Some(files.location.rootPaths.mkString(", "))
    case table: HiveTableRelation => Some(table.tableMeta.identifier.unquotedString)
    case table: DataSourceV2Relation => Some(table.name)
    case LogicalRelation(other, _, _, _, _) => Some(other.toString)
    case _ => None
  }

  /** The query of `frame` itself, over `relations`, at `instant` (microseconds since 1970). */
  def pinned(spark: SparkSession, frame: Object, relations: java.util.Map[String, Object], instant: Long): Object =
    Dataset.ofRows(
      spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession],
      SessionWindows.unmarked(
        pin(Clock.stopped(Ties.broken(frame.asInstanceOf[Dataset[_]].queryExecution.analyzed), instant), relations)))

  /** Each Delta table, by path, replaced by the files that `relations` (frames of a pinned version) read. */
  private def pin(query: LogicalPlan, relations: java.util.Map[String, Object]): LogicalPlan =
    query.transformUpWithSubqueries {
      case DeltaSource(relation, index, files) if !index.isTimeTravelQuery =>
        val location = Option(relations.get(index.deltaLog.dataPath.toString))
          .flatMap(_.asInstanceOf[Dataset[_]].queryExecution.analyzed.collectFirst {
            case LogicalRelation(pinned: HadoopFsRelation, _, _, _, _) => pinned.location
          })
          .getOrElse(throw new IllegalStateException(s"no version is pinned for ${index.deltaLog.dataPath}"))
        // Schema and format stay those that the query was analysed with: files written before a column was added read it as NULL.
        relation.copy(relation = files.copy(location = location)(files.sparkSession))
      case constant @ (_: OneRowRelation | _: LocalRelation | _: Range | _: CTERelationRef | _: UnionLoopRef) =>
        constant
      case other: LeafNode => Sessions.uncached(other)
    }

  /** Whether a refresh reads the table at the versions that it is at, and not always at the same one. */
  private[streamtable] def isRead(plan: LogicalPlan): Boolean = plan match {
    case DeltaSource(_, index, _) => !index.isTimeTravelQuery
    case _ => false
  }

  def name(a: Attribute): String = if (a.exprId == Clock.now.exprId) a.name else s"c${a.exprId.id}"

  /** The same among texts of users, none of which begins so. */
  def marked(a: Attribute): String = s"\u0001${name(a)}"

  private[streamtable] object DeltaSource {
    def unapply(plan: LogicalPlan): Option[(LogicalRelation, TahoeLogFileIndex, HadoopFsRelation)] = plan match {
      case relation @ LogicalRelation(files: HadoopFsRelation, _, _, _, _) =>
        files.location match { case index: TahoeLogFileIndex => Some((relation, index, files)); case _ => None }
      case _ => None
    }
  }
}

private class PlanReader(reading: ExpressionRegistry.Reading, parts: Map[ExprId, String]) extends PredicateHelper {
  import PlanReader.{name, sourceName, DeltaSource}

  /**
   * Parts that were read, by what they compute. The canonical form of a table has places for columns; which columns these are may differ
   * where texts were pinned at different times.
   */
  private val known =
    scala.collection.mutable.Map.empty[(LogicalPlan, Seq[Seq[String]]), (LogicalPlan, JObject)]

  /** A part that is there twice, as of a CTE: the second is the first under other names, so that it is stored and computed once. */
  private def once(plan: LogicalPlan)(read: => JObject): JObject = {
    val computed = (plan.canonicalized, plan.collect { case table: LogicalRelation => table.output.map(_.name) })
    known.get(computed) match {
      case Some((first, json)) =>
        val renamed = plan.output.zip(first.output).map { case (a, of) =>
          ("id" -> name(a)) ~ ("name" -> a.name) ~ ("value" -> expression(of))
        }
        described("Project", plan) ~ ("list" -> renamed.toList) ~ ("children" -> List(json))
      case None =>
        val json = read
        known(computed) = (plan, json)
        json
    }
  }

  def node(plan: LogicalPlan): JObject = plan match {
    // Nodes without meaning for the bag of rows.
    case _: SubqueryAlias | _: View | _: ResolvedHint | _: PipeOperator | _: Repartition | _: RepartitionByExpression |
        _: RebalancePartitions =>
      node(plan.children.head)
    case _: EventTimeWatermark if !plan.isStreaming => node(plan.children.head)
    case DeltaSource(relation, index, _) if !relation.isStreaming && index.isTimeTravelQuery =>
      described("Constant", plan) ~ ("leaf" -> reading.addLeaf(plan)) ~
        ("rows" -> s"${index.metadata.id} as of version ${index.getSnapshot.version}")
    case DeltaSource(relation, index, _) if !relation.isStreaming =>
      described("Relation", plan) ~ ("path" -> index.deltaLog.dataPath.toString) ~
        ("table" -> relation.catalogTable.map(_.identifier.unquotedString)) ~
        ("table_id" -> index.metadata.id) ~ ("stored" -> stored(index, relation.output))
    case _: OneRowRelation | _: LocalRelation | _: Range =>
      described("Constant", plan) ~ ("leaf" -> reading.addLeaf(plan)) ~ ("rows" -> Meaning.rows(plan))
    case x: Project => described("Project", plan) ~ ("list" -> x.projectList.map(named).toList) ~ below(plan)
    case x: Filter => described("Filter", plan) ~ ("conjuncts" -> conjuncts(Some(x.condition))) ~ below(plan)
    case x: Join =>
      val exists = Option(x.joinType).collect { case ExistenceJoin(attribute) => columns(Seq(attribute)).head }
      val how = if (exists.isDefined) "EXISTENCE" else x.joinType.sql
      described("Join", plan) ~ ("how" -> how) ~ ("conjuncts" -> conjuncts(x.condition)) ~ ("exists" -> exists) ~ below(
        plan)
    case x: Aggregate => once(x)(aggregate(x))
    case x: Generate =>
      described("Generate", plan) ~ ("generator" -> expression(x.generator)) ~ ("outer" -> x.outer) ~
        ("generated" -> columns(x.generatorOutput)) ~ below(plan)
    case x: Union if !x.byName => described("Union", plan) ~ below(plan)
    case x: Distinct => once(x)(described("Distinct", plan) ~ below(plan))
    case Intersect(_, _, all) => described("Intersect", plan) ~ ("all" -> all) ~ below(plan)
    case Except(_, _, all) => described("Except", plan) ~ ("all" -> all) ~ below(plan)
    case x: Window =>
      described("Window", plan) ~ ("list" -> x.windowExpressions.map(windowed(_, x.child.output)).toList) ~
        ("partition" -> x.partitionSpec.map(expression).toList) ~ ("order" -> x.orderSpec.map(order).toList) ~
        ("running" -> x.windowExpressions.flatMap(running).toList) ~ below(plan)
    case x: Expand =>
      described("Expand", plan) ~ ("projections" -> x.projections.map(_.map(expression).toList).toList) ~ below(plan)
    case x: UnionLoop =>
      once(x)(
        described("Recursion", plan) ~ ("loop" -> s"loop_${x.id}") ~ ("most" -> Versions.maxDepth(x)) ~ below(plan))
    case x: UnionLoopRef => described("WorkingTable", plan) ~ ("loop" -> s"loop_${x.loopId}")
    case x: Sort =>
      described("Sort", plan) ~ ("order" -> x.order.map(order).toList) ~
        ("within_partitions" -> Option.when(!x.global)(true)) ~ ("open" -> columns(
          Ties.leftOut(x.child.output))) ~ below(plan)
    case GlobalLimit(IntegerLiteral(limit), LocalLimit(_, Offset(IntegerLiteral(offset), child))) =>
      limited(plan, Some(limit), offset, child)
    case GlobalLimit(IntegerLiteral(limit), LocalLimit(_, child)) => limited(plan, Some(limit), 0, child)
    case Offset(IntegerLiteral(offset), child) => limited(plan, None, offset, child)
    case other =>
      described(other.nodeName, other) ~ ("unknown" -> true) ~ ("streaming" -> other.isStreaming) ~
        ("source" -> sourceName(other)) ~ ("unshown" -> Meaning.unshown(other)) ~ below(plan)
  }

  /** Under which names the files hold each column, where that is not its own: a column that is dropped and added again is another one. */
  private def stored(index: TahoeLogFileIndex, columns: Seq[Attribute]): JObject = {
    val metadata = index.getSnapshot.metadata
    val mapped = metadata.columnMappingMode != NoMapping
    JObject((if (mapped) metadata.schema.fields.toList else Nil).map { f =>
      val meant = columns.find(_.name == f.name).fold(f)(Fields.meant(f, _))
      f.name -> JString(Fields.stored(meant))
    })
  }

  private def order(x: SortOrder): JObject =
    ("value" -> expression(
      x.child)) ~ ("ascending" -> (x.direction == Ascending)) ~ ("nulls_first" -> (x.nullOrdering == NullsFirst))

  private def limited(plan: LogicalPlan, count: Option[Int], offset: Int, child: LogicalPlan): JObject =
    described("Limit", plan) ~ ("count" -> count) ~ ("offset" -> offset) ~
      ("shuffled" -> Option.when(isShuffled(child))(true)) ~ ("children" -> List(node(child)))

  /** Whether rows are handed out anew between a limit and the order below it. */
  private def isShuffled(plan: LogicalPlan): Boolean = plan match {
    case _: Repartition | _: RepartitionByExpression | _: RebalancePartitions => true
    case _ => Ties.keepsOrder(plan) && isShuffled(plan.children.head)
  }

  private def below(plan: LogicalPlan): JObject = "children" -> plan.children.map(node).toList

  private def described(operator: String, plan: LogicalPlan): JObject =
    ("op" -> operator) ~ ("output" -> columns(plan.output))

  private def columns(attributes: Seq[Attribute]): List[JObject] = attributes.map { a =>
    ("id" -> name(a)) ~ ("name" -> a.name) ~ ("type" -> Shaped.plain(a.dataType).sql) ~ ("nullable" -> a.nullable) ~
      ("parts" -> parts.get(a.exprId))
  }.toList

  private def conjuncts(condition: Option[Expression]): List[JObject] = {
    condition.toList.flatMap(splitConjunctivePredicates).map {
      case e @ Equality(left, right) =>
        expression(e) ~ ("sides" -> List(expression(left), expression(right))) ~ bounded(e)
      case e => expression(e) ~ bounded(e)
    }
  }

  /** Whether a condition keeps the whole numbers of a column, from 1 on, up to some number. */
  private def bounded(condition: Expression): JObject = {
    def number(e: Expression): Boolean = e match {
      case Literal(value, IntegerType) => value != null
      case _ => false
    }
    "bounded" -> Option.when(condition match {
      case EqualTo(_: Attribute, Literal(1, IntegerType)) | EqualTo(Literal(1, IntegerType), _: Attribute) => true
      case LessThanOrEqual(_: Attribute, most) => number(most)
      case LessThan(_: Attribute, above) => number(above)
      case GreaterThanOrEqual(most, _: Attribute) => number(most)
      case GreaterThan(above, _: Attribute) => number(above)
      case _ => false
    })(true)
  }

  private def named(e: NamedExpression): JObject = named(e, expression(valueOf(e)))

  private def named(e: NamedExpression, value: JObject): JObject =
    ("id" -> name(e.toAttribute)) ~ ("name" -> e.name) ~ ("value" -> value)

  private def valueOf(e: NamedExpression): Expression = e match { case Alias(child, _) => child; case other => other }

  private def windowed(e: NamedExpression, columns: Seq[Attribute]): JObject =
    named(
      e,
      expression(valueOf(e)) ~ ("open" -> e.exists {
        case w: WindowExpression => Ties.isLeftOpen(w, columns); case _ => false
      }) ~ ("rounds" -> Option.when(e.exists { case w: WindowExpression => Ties.rounds(w); case _ => false })(
        true)) ~ ("ranks" -> Option.when(ranks(valueOf(e)))(true)))

  private def ranks(e: Expression): Boolean = e match {
    case WindowExpression(_: RowNumber | _: Rank | _: DenseRank, _) => true
    case _ => false
  }

  /** Where the frame is all rows up to the current one: the aggregate call whose value over the rows before adds up with the function's. */
  private def running(e: NamedExpression): Option[JObject] = valueOf(e) match {
    case WindowExpression(
          call: AggregateExpression,
          WindowSpecDefinition(_, _, SpecifiedWindowFrame(_, UnboundedPreceding, CurrentRow))) =>
      Some(aggregateCall(call, e.toAttribute))
    case WindowExpression(_: RowNumber | _: Rank, _) =>
      Some(aggregateCall(Count(Literal(1)).toAggregateExpression(), e.toAttribute))
    case _ => None
  }

  private def expression(e: Expression): JObject = {
    val facts = ("type" -> Shaped.plain(e.dataType).sql) ~ ("nullable" -> e.nullable)
    e match {
      case a: AttributeReference if !Clock.isRead(a) =>
        ("column" -> name(a)) ~ ("text" -> a.name) ~ facts ~ ("parts" -> parts.get(a.exprId))
      case _ =>
        val subqueries = e.collect { case s: SubqueryExpression => s.nodeName }
        val outer = e.exists(_.isInstanceOf[OuterReference])
        facts ~ number(e, e.references.toSeq) ~ values(e) ~ meaning(e) ~ ("deterministic" -> Clock.isRepeatable(e)) ~
          ("clock" -> Clock.isRead(e)) ~ ("subqueries" -> subqueries.toList) ~ ("outer" -> outer)
    }
  }

  private def values(e: Expression): JObject = ("fails" -> Option.when(Failing(e))(true)) ~
    ("tells" -> Option(Telling(e).toSeq.map(name).toList).filter(_.nonEmpty))

  private def number(e: Expression, inputs: Seq[Attribute]): JObject =
    ("number" -> reading.add(e, inputs)) ~ ("inputs" -> inputs.map(name).toList)

  /** The text of an expression, and what it does not show. */
  private def meaning(e: Expression): JObject =
    ("text" -> Meaning.text(e)) ~ ("unshown" -> Option(Meaning.unshown(e)).filter(_.nonEmpty))

  /**
   * Keys, aggregate calls, and the select list over them. A call is taken apart: its arguments and filter are expressions over the
   * input, `number` is the call itself. `finish` computes its value from its partial state, if it has one.
   */
  private def aggregate(x: Aggregate): JObject = {
    // Maps are compared by their sorted entries, and Spark shows them sorted.
    val keys = x.groupingExpressions.map { e =>
      val (key, shown: (Expression => Expression)) = e.dataType match {
        case MapType(k, v, _) if Identity.isIdentity(k) && Identity.isIdentity(v) && RowOrdering.isOrderable(k) =>
          (MapEntries(MapSort(e)), MapFromEntries(_))
        case _ => (e, identity[Expression](_))
      }
      val out = key match { case a: Attribute => a; case o => Alias(o, Meaning.text(o))().toAttribute }
      (e, key, out, shown(out))
    }
    val calls = scala.collection.mutable.LinkedHashMap.empty[Expression, (AggregateExpression, AttributeReference)]
    def overResults(e: Expression): Expression = e match {
      case call: AggregateExpression =>
        calls
          .getOrElseUpdate(
            call.canonicalized,
            (call, AttributeReference(Meaning.text(call), call.dataType, call.nullable)()))
          ._2
      case other =>
        keys
          .collectFirst { case (key, _, _, shown) if key.semanticEquals(other) => shown }
          .getOrElse(other.mapChildren(overResults))
    }
    val list = x.aggregateExpressions.map {
      case alias @ Alias(child, _) => (alias.toAttribute, overResults(child))
      case other => (other.toAttribute, overResults(other))
    }
    val inOrder = x.aggregateExpressions.flatMap(readInOrder).toSet
    described("Aggregate", x) ~
      ("keys" -> keys.map { case (_, key, out, _) =>
        ("id" -> name(out)) ~ ("name" -> out.name) ~ ("value" -> expression(key))
      }.toList) ~
      ("calls" -> calls.map { case (meant, (call, out)) =>
        ("any_order" -> Option.when(SubqueriesAsJoins.isOfOneRow(call) || isList(call) && !inOrder(meant))(true)) ~
          aggregateCall(call, out)
      }.toList) ~
      ("list" -> list.map { case (out, e) =>
        ("id" -> name(out)) ~ ("name" -> out.name) ~ ("value" -> expression(e))
      }.toList) ~
      below(x)
  }

  /** The calls whose lists are read by more than functions that give one value for all orders of a list. */
  private def readInOrder(e: Expression): Seq[Expression] = e match {
    case call: AggregateExpression => Seq(call.canonicalized)
    case _: Size | _: ArrayContains | _: ArrayExists if isList(e.children.head) => e.children.tail.flatMap(readInOrder)
    case _: SortArray | _: ArrayMin | _: ArrayMax if isExactList(e.children.head) =>
      e.children.tail.flatMap(readInOrder)
    // A comparator of the query's own may leave ties.
    case ArraySort(list, LambdaFunction(body, Seq(a, b), _), _)
        if isExactList(list) && body.semanticEquals(ArraySort.comparator(a, b)) =>
      Nil
    case other => other.children.flatMap(readInOrder)
  }

  private def isList(e: Expression): Boolean = e match {
    case call: AggregateExpression => call.aggregateFunction.isInstanceOf[Collect[_]]
    case ArrayDistinct(list) => isExactList(list)
    case ArrayTransform(list, LambdaFunction(body, Seq(_), _)) =>
      isList(list) && readInOrder(body).isEmpty // a second argument would be the place in the list
    case ArrayFilter(list, LambdaFunction(body, Seq(_), _)) => isList(list) && readInOrder(body).isEmpty
    case _ => false
  }

  /** Whether equal values in the list are the same: a sort leaves others in the order in which they came. */
  private def isExactList(e: Expression): Boolean = isList(e) && Telling.isExact(e.dataType)

  private def aggregateCall(call: AggregateExpression, out: Attribute): JObject = {
    val function = call.aggregateFunction
    val finish = function match {
      case d: DeclarativeAggregate =>
        Some(number(d.evaluateExpression, d.aggBufferAttributes) ~ ("state" -> columns(d.aggBufferAttributes)))
      case _ => None
    }
    ("id" -> name(out)) ~ ("name" -> out.name) ~ ("type" -> Shaped
      .plain(out.dataType)
      .sql) ~ ("nullable" -> out.nullable) ~
      number(call, call.references.toSeq) ~ values(call) ~ meaning(call) ~ ("deterministic" -> Clock.isRepeatable(
        call)) ~
      ("subqueries" -> call.collect { case s: SubqueryExpression => s.nodeName }.toList) ~
      ("function" -> function.getClass.getSimpleName) ~ ("distinct" -> call.isDistinct) ~
      ("arguments" -> function.children.map(expression).toList) ~ ("filter" -> call.filter.map(
        expression)) ~ ("finish" -> finish) ~ ("overflow" -> overflow(function))
  }

  /** What a sum that overflows gives: as the sums of the session do, or, of decimals, NULL. A view keeps the mode of its own session. */
  private def overflow(function: AggregateFunction): Option[String] = {
    val mode = function match {
      case s: Sum => Some(Versions.evalMode(s))
      case a: Average => Some(a.evalMode)
      case _ => None
    }
    mode.flatMap {
      case other if other != EvalMode.fromSQLConf(SQLConf.get) => Some("OTHER")
      case EvalMode.LEGACY if function.dataType.isInstanceOf[DecimalType] => Some("NULL")
      case _ => None
    }
  }
}
