package org.apache.spark.sql.delta.streamtable

import org.apache.spark.sql.delta.actions.Protocol
import org.apache.spark.sql.streamtable.StreamTableException

/**
 * The features of Delta's tables that our change sets and commits know. A feature may put commits elsewhere than into the log, or give
 * files another meaning. A table with a feature outside this list is refused for reads and writes, because nobody has checked the
 * feature.
 */
private[streamtable] object Features {
  private val known = Set(
    "allowColumnDefaults",
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "checkpointProtection",
    "clustering",
    "columnMapping",
    "deletionVectors",
    "domainMetadata",
    "generatedColumns",
    "icebergCompatV1",
    "icebergCompatV2",
    "identityColumns",
    "inCommitTimestamp",
    "invariants",
    "materializePartitionColumns",
    "rowTracking",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantShredding",
    "variantShredding-preview",
    "variantType",
    "variantType-preview")

  def refuseUnknown(path: String, protocol: Protocol): Unit = {
    val others = (protocol.readerAndWriterFeatureNames -- known).toSeq.sorted
    if (others.nonEmpty)
      throw StreamTableException(
        "STREAMTABLE_NOT_SUPPORTED",
        "0A000",
        s"the table at $path has the table feature ${others.mkString(", ")} of Delta, which stream tables do not know; " +
          "its commits may be elsewhere than in its log, and nothing was read or written",
        "drop the feature (ALTER TABLE ... DROP FEATURE), or copy the table to one without it")
  }
}
