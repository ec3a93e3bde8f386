package org.apache.spark.sql.streamtable

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.sparkproject.connect.grpc._
import org.sparkproject.connect.protobuf.{MapEntry, Message}

import org.apache.spark.connect.proto
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser

/**
 * Looks through the requests of Spark Connect, whose plans need no SQL: before Spark reads one, because functions of Scala run when
 * they are read. SQL within them, and names of tables, come by the parser as well.
 */
class GuardedConnect extends ServerInterceptor {
  import GuardedConnect._

  override def interceptCall[Q, R](
      call: ServerCall[Q, R],
      headers: Metadata,
      next: ServerCallHandler[Q, R]): ServerCall.Listener[Q] = {
    val listener = next.startCall(call, headers)
    Guard.always.fold(listener) { guard =>
      new ForwardingServerCallListener.SimpleForwardingServerCallListener[Q](listener) {
        private var refused = false

        override def onMessage(request: Q): Unit =
          try {
            if (!refused) {
              check(guard, request)
              super.onMessage(request)
            }
          } catch {
            case e: StreamTableException =>
              refused = true
              call.close(Status.PERMISSION_DENIED.withDescription(e.getMessage), new Metadata)
          }

        override def onHalfClose(): Unit = if (!refused) super.onHalfClose()
      }
    }
  }
}

private object GuardedConnect {

  /** Messages that bring code, or name classes that are run; of a later Spark's, those that are unknown come as one of Any. */
  private val code = Set(
    "spark.connect.CommonInlineUserDefinedFunction",
    "spark.connect.CommonInlineUserDefinedTableFunction",
    "spark.connect.CommonInlineUserDefinedDataSource",
    "spark.connect.TypedAggregateExpression",
    "spark.connect.ScalarScalaUDF",
    "spark.connect.PythonUDF",
    "spark.connect.JavaUDF",
    "spark.connect.PythonUDTF",
    "spark.connect.PythonDataSource",
    "spark.connect.StreamingForeachFunction",
    "spark.connect.StreamingQueryListenerBusCommand",
    "spark.connect.StreamingQueryManagerCommand.StreamingQueryListenerCommand",
    "spark.connect.ExecuteExternalCommand",
    "spark.connect.CreateResourceProfileCommand",
    "spark.connect.DataType.UDT",
    "spark.connect.MlCommand",
    "spark.connect.MlRelation",
    "spark.connect.PipelineCommand",
    "google.protobuf.Any")
  private val formats = Set("format", "source", "provider")
  private val places = Set("path", "paths", "location")

  def check(guard: Guard, request: Any): Unit = request match {
    case artifacts: proto.AddArtifactsRequest =>
      val names = artifacts.getBatch.getArtifactsList.asScala.map(_.getName) ++
        Option.when(artifacts.hasBeginChunk)(artifacts.getBeginChunk.getName)
      // Large local data comes as such.
      names.filterNot(_.startsWith("cache/")).foreach(name => guard.refuse("code", s"the artifact $name"))
    case config: proto.ConfigRequest => settings(guard, config.getOperation)
    case message: Message => walk(guard, message)
    case _ => guard.refuse("code", "a request of an unknown kind")
  }

  private def settings(guard: Guard, operation: proto.ConfigRequest.Operation): Unit = {
    operation.getSet.getPairsList.asScala.foreach(pair => guard.setting(pair.getKey, pair.getValue))
    val asked = operation.getGet.getKeysList.asScala ++ operation.getGetOption.getKeysList.asScala ++
      operation.getGetWithDefault.getPairsList.asScala.map(_.getKey)
    asked.foreach(guard.shown)
    if (operation.hasGetAll) guard.refuse("settings", "all settings at once")
  }

  private def called(plan: GuardedPlan, name: String, arguments: Seq[proto.Expression]): Unit = {
    plan.function(parts(name))
    plan.options(parts(name).lastOption.getOrElse(""), arguments, pairs)
  }

  private def parts(name: String): Seq[String] =
    Try(CatalystSqlParser.parseMultipartIdentifier(name)).getOrElse(name.split('.').toSeq)

  private def pairs(options: proto.Expression): Option[Seq[(String, Any)]] = {
    val map = options.getUnresolvedFunction
    val texts = map.getArgumentsList.asScala.toSeq.map(_.getLiteral).collect { case l if l.hasString => l.getString }
    Option.when(map.getFunctionName.equalsIgnoreCase("map") && texts.size == map.getArgumentsCount) {
      texts.grouped(2).collect { case Seq(key, value) => key -> value }.toSeq
    }
  }

  private def walk(guard: Guard, message: Message): Unit = {
    val plan = new GuardedPlan(guard, null)
    message match {
      case _: proto.UserContext => return // it is about the client
      case sent: proto.Plan => Versions.decompressed(sent).foreach(walk(guard, _))
      case pair: MapEntry[_, _] => plan.option(String.valueOf(pair.getKey), pair.getValue)
      case function: proto.Expression.UnresolvedFunction =>
        called(plan, function.getFunctionName, function.getArgumentsList.asScala.toSeq)
      case function: proto.CallFunction =>
        called(plan, function.getFunctionName, function.getArgumentsList.asScala.toSeq)
      case function: proto.UnresolvedTableValuedFunction => plan.function(parts(function.getFunctionName))
      case _ =>
    }
    val kind = message.getDescriptorForType.getFullName
    if (code(kind)) guard.refuse("code", kind.split('.').last)
    message.getAllFields.asScala.foreach { case (field, value) =>
      val values = value match {
        case several: java.util.List[_] => several.asScala.toSeq
        case one => Seq(one)
      }
      values.foreach {
        case pair: MapEntry[_, _] if field.getName == "options" =>
          plan.sourceOption(String.valueOf(pair.getKey), pair.getValue)
        case inner: Message => walk(guard, inner)
        case text: String if places(field.getName) => guard.place(text)
        case text: String if formats(field.getName) && text.nonEmpty && kind.startsWith("spark.connect.") =>
          plan.format(text)
        case _ =>
      }
    }
  }
}
