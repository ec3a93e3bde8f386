package org.apache.spark.sql.streamtable {

  import org.apache.spark.sql.{DataFrame, SQLContext, SparkSession}
  import org.apache.spark.sql.catalyst.plans.logical.Project
  import org.apache.spark.sql.classic
  import org.apache.spark.sql.connector.read.streaming.{
    Offset => AnyOffset,
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow
  }
  import org.apache.spark.sql.execution.streaming.{Offset, Source}
  import org.apache.spark.sql.sources.StreamSourceProvider
  import org.apache.spark.sql.types.StructType

  /** `readStream.format("streamtable").option("subscribe", ...)`: what the option holds stands behind SUBSCRIBE TO. */
  class SubscribeProvider extends StreamSourceProvider {

    override def sourceSchema(
        context: SQLContext,
        schema: Option[StructType],
        provider: String,
        parameters: Map[String, String]): (String, StructType) =
      (provider, source(context, parameters, "").schema)

    override def createSource(
        context: SQLContext,
        metadata: String,
        schema: Option[StructType],
        provider: String,
        parameters: Map[String, String]): Source =
      source(context, parameters, metadata)

    private def source(context: SQLContext, parameters: Map[String, String], place: String) =
      new SubscribeSource(context.sparkSession, s"SUBSCRIBE TO ${parameters.getOrElse("subscribe", "")}", place)
  }

  /** Micro-batches by logical time: an offset is a time, and Python says where a batch ends, and what came between two of them. */
  class SubscribeSource(session: SparkSession, sql: String, place: String)
      extends Source
      with SupportsTriggerAvailableNow {

    private var availableNow = false
    private var newest: Option[String] = None

    /** The columns of its tables that the stream means, as it began, and the texts that its checkpoint began with. */
    private lazy val columns = Handlers.begun(session, sql, place)

    override lazy val schema: StructType = StreamTableCommand.parse(session, sql).schema

    override def getDefaultReadLimit: ReadLimit = Bounded

    override def prepareForTriggerAvailableNow(): Unit = availableNow = true

    override def latestOffset(start: AnyOffset, limit: ReadLimit): AnyOffset = {
      val position = Option(start).map(_.json)
      val latest = newest.orElse(Handlers.latest(session, sql, columns, position.orNull))
      if (availableNow) newest = latest // what comes later is for another run
      val end =
        if (latest.isEmpty || latest == position || limit.isInstanceOf[ReadAllAvailable]) latest
        else Handlers.latest(session, sql, columns, position.orNull, latest.orNull)
      end.map(TimeOffset(_)).orNull
    }

    override def getOffset: Option[Offset] =
      throw new UnsupportedOperationException("a source that bounds its batches is asked for latestOffset")

    override def getBatch(start: Option[Offset], end: Offset): DataFrame = {
      val rows =
        Handlers.batch(session, sql, columns, start.map(_.json).orNull, end.json).asInstanceOf[classic.DataFrame]
      rows.sparkSession.internalCreateDataFrame(asBegun(rows).queryExecution.toRdd, schema, isStreaming = true)
    }

    /**
     * The columns that the stream began with, by their names: those of its tables may have moved since, and others come. Several columns
     * of a query that have one name keep their order.
     */
    private def asBegun(rows: classic.DataFrame): classic.DataFrame = {
      val columns = schema.zipWithIndex.map { case (field, place) =>
        rows.queryExecution.analyzed.output
          .filter(_.name == field.name)
          .lift(schema.take(place).count(_.name == field.name))
          .filter(_.dataType.sameType(field.dataType))
          .getOrElse(throw StreamTableException(
            "STREAMTABLE_SOURCE_CHANGED",
            "42804",
            s"the column ${field.name} ${field.dataType.sql}, with which the stream of $sql began, is not there any more",
            "start the stream anew."))
      }
      classic.Dataset.ofRows(rows.sparkSession, Project(columns, rows.queryExecution.analyzed))
    }

    override def stop(): Unit = ()
  }

  /** As much as Python finds good for one batch. */
  private object Bounded extends ReadLimit

  /** A logical time, which may have more digits than a Long. */
  case class TimeOffset(override val json: String) extends Offset
}

package streamtable {

  /** Where Spark looks for `format("streamtable")`. */
  class DefaultSource extends org.apache.spark.sql.streamtable.SubscribeProvider
}
