package org.apache.spark.sql.streamtable

/**
 * The commands of Spark and Delta that name or read tables and change neither the rows, nor the columns, nor the properties of any that
 * is there. A command of a later version is not among them until somebody has looked at it.
 */
private object WithoutWrites {

  val names: Set[String] = Seq(
    // They tell, or keep for later what they have read.
    "AnalyzeColumn AnalyzeColumnCommand AnalyzePartitionCommand AnalyzeTable AnalyzeTableCommand CacheTable CacheTableAsSelect",
    "DeclareCursor DescribeColumn DescribeColumnCommand DescribeDeltaDetailCommand DescribeDeltaHistory",
    "DescribeDeltaHistoryCommand DescribeQueryCommand DescribeRelation DescribeRelationJsonCommand DescribeTableCommand",
    "DescribeTablePartition ExplainCommand FetchCursor OpenCursor RefreshTable RefreshTableCommand SetVariable ShowColumns",
    "ShowColumnsCommand ShowCreateTable ShowCreateTableAsSerdeCommand ShowCreateTableCommand ShowDeltaPartitionsCommand",
    "ShowDeltaTableColumnsCommand ShowPartitions ShowPartitionsCommand ShowTablePartition ShowTableProperties",
    "ShowTablePropertiesCommand StreamingExplainCommand UncacheTable",
    // They make something new of what they read.
    "CloneTableCommand CreateDataSourceTableAsSelectCommand CreateDeltaTableCommand CreateFlowCommand",
    "CreateHiveTableAsSelectCommand CreateMaterializedViewAsSelect CreateMetricViewCommand CreateSQLFunctionCommand",
    "CreateStreamingTableAsSelect CreateTable CreateTableAsSelect CreateTableLike CreateTableLikeCommand CreateVariable CreateView",
    "CreateViewCommand SaveAsV1TableCommand",
    // They write what they read to something that is no table of Delta.
    "InsertIntoDataSourceDirCommand InsertIntoHadoopFsRelationCommand InsertIntoHiveDirCommand InsertIntoHiveTable",
    "SaveIntoDataSourceCommand",
    // They write files of a table anew, and leave its rows as they are.
    "DeltaGenerateCommand DeltaReorgTable DeltaReorgTableCommand OptimizeTableCommand VacuumTableCommand")
    .flatMap(_.split(' '))
    .toSet
}
