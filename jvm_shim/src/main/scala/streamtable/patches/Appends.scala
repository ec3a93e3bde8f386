package org.apache.spark.sql.delta.streamtable

import org.apache.spark.sql.{AnalysisException, DataFrame, SaveMode, SparkSession}
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.{AppendData, LogicalPlan}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.delta.{DeltaLog, DeltaOperations, DeltaOptions, OptimisticTransaction, Snapshot}
import org.apache.spark.sql.delta.ColumnWithDefaultExprUtils.USE_NULL_AS_DEFAULT_DELTA_OPTION
import org.apache.spark.sql.delta.actions.SetTransaction
import org.apache.spark.sql.delta.catalog.DeltaTableV2
import org.apache.spark.sql.delta.commands.WriteIntoDelta
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.streamtable.{FollowedCommand, PartitionValues, Patches, Versions}

/**
 * Appends that are made once, however often they are tried: what a DataFrameWriter does with the options txnAppId and txnVersion. It
 * reconstructs the table's state, in three Spark jobs, to look up one number that the version's checksum has as well.
 */
private[streamtable] object Appends {

  /** The latest number that an application has put into the table's commits. */
  def number(snapshot: Snapshot, application: String): Option[Long] =
    transactions(snapshot).collectFirst { case t if t.appId == application => t.version }

  /** The latest number of each application. */
  def transactions(snapshot: Snapshot): Seq[SetTransaction] =
    snapshot.checksumOpt
      .filter(_ => Patches.isOn("append once"))
      .flatMap(_.setTransactions)
      .getOrElse(snapshot.setTransactions)

  /**
   * Appends by name, after Spark's own analysis, with the numbers of `marks` in the same commit. False, with nothing done, if the
   * writer has to make the table or to explain the error.
   */
  def once(
      spark: SparkSession,
      table: String,
      rows: DataFrame,
      application: String,
      version: Long,
      marks: Map[String, Long]): Boolean = {
    val target =
      Versions.inserting(UnresolvedRelation(spark.sessionState.sqlParser.parseMultipartIdentifier(table)))
    // A writer gives no marks. Of a command, its answer: its plan would run it again.
    if (!Patches.isOn("append once") && marks.isEmpty) false
    else {
      val plan = analyzed(spark, AppendData.byName(target, rows.queryExecution.commandExecuted))
      val followed = plan.collect { case found: FollowedCommand => found }
      followed.fold(plan)(found => found.unfollowed(analyzed(spark, found.statement))) match {
        case Some(append: AppendData) =>
          Some(append.table).collect { case relation: DataSourceV2Relation => relation.table } match {
            case Some(found: DeltaTableV2) =>
              def write(): Unit = {
                commit(spark, found, append.query, application, version, marks)
                Seq(append.table, found.toLogicalRelation).foreach { of =>
                  spark.sharedState.cacheManager.recacheByPlan(spark.asInstanceOf[ClassicSession], of)
                }
              }
              followed.fold(write())(_.carriedOut(spark)(write()))
              true
            case _ => false
          }
        case _ => false
      }
    }
  }

  private def analyzed(spark: SparkSession, plan: LogicalPlan): Option[LogicalPlan] =
    try Some(spark.sessionState.executePlan(plan)).map { found => found.assertAnalyzed(); found.analyzed }
    catch { case _: AnalysisException => None }

  private def commit(
      spark: SparkSession,
      table: DeltaTableV2,
      rows: LogicalPlan,
      application: String,
      version: Long,
      marks: Map[String, Long]): Unit = {
    val log = table.deltaLog
    val snapshot = log.update(catalogTableOpt = table.catalogTable)
    if (!number(snapshot, application).exists(_ >= version)) {
      val transaction = new Numbered(log, table.catalogTable, snapshot, application)
      OptimisticTransaction.withActive(transaction) {
        val nulls = spark.sessionState.conf.useNullsForMissingDefaultColumnValues
        // The number as well: what the session says of another one is not for this write.
        val options = Map(DeltaOptions.TXN_APP_ID -> application, DeltaOptions.TXN_VERSION -> version.toString) ++
          Option.when(nulls)(USE_NULL_AS_DEFAULT_DELTA_OPTION -> nulls.toString)
        val written = WriteIntoDelta(
          log,
          SaveMode.Append,
          new DeltaOptions(options, spark.sessionState.conf),
          Nil,
          snapshot.metadata.configuration,
          PartitionValues.checked(Snapshots.frame(spark, rows), snapshot.metadata.partitionColumns),
          table.catalogTable).writeAndReturnCommitData(transaction, spark)
        val at = Some(System.currentTimeMillis())
        val actions = written.actions ++ marks.map { case (name, number) => SetTransaction(name, number, at) }
        transaction.commitIfNeeded(actions, DeltaOperations.Write(SaveMode.Append), written.stringTags)
      }
    }
  }
}

/** A transaction that depends on what its application has written: of two with one number at the same time, one fails. */
private[streamtable] class Numbered(log: DeltaLog, table: Option[CatalogTable], snapshot: Snapshot, application: String)
    extends OptimisticTransaction(log, table, snapshot) {
  readTxn += application
}
