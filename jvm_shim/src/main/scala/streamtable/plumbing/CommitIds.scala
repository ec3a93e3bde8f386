package org.apache.spark.sql.delta.streamtable

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest

import scala.util.{Try, Using}
import scala.util.chaining._

import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.sql.delta.{DeltaLog, Snapshot}
import org.apache.spark.sql.delta.util.FileNames
import org.json4s._
import org.json4s.jackson.JsonMethods.parse

/**
 * Identifies a commit, because its number does not: an older copy of the folder may have taken the table's place. The identity is the
 * transaction's id, or else a digest of the file. Both survive a copy of the folder; the time of a file does not.
 */
private[streamtable] object CommitIds {
  private val most = 10000
  private val (commitInfo, near) = ("\"commitInfo\"", 40)

  /** By log, version and time of the file: this driver reads a file once. */
  private val known = Recent.map[(Path, Long, Long), String](_.size > most)

  /** Of the latest version: its checksum has the id, and came with the snapshot. */
  def of(latest: Snapshot): Option[String] =
    remembered(
      latest.deltaLog,
      latest.version,
      latest.logSegment.lastCommitFileModificationTimestamp,
      latest.checksumOpt.flatMap(_.txnId).filter(_.nonEmpty))

  /** Of a version that the log has come to; None where its file is not there any more. */
  def at(latest: Snapshot, version: Long): Option[String] =
    if (version > latest.version) None
    else if (version == latest.version) of(latest)
    else fileOf(latest, version).flatMap(file => remembered(latest.deltaLog, version, file.getModificationTime, None))

  private def remembered(log: DeltaLog, version: Long, at: Long, told: Option[String]): Option[String] = {
    val key = (log.logPath, version, at)
    told.orElse(Option(known.get(key))).orElse(read(log, version)).tap(_.foreach(known.put(key, _)))
  }

  /** The snapshot has listed the commits since the checkpoint, of which some may be compacted; others are asked for. */
  private def fileOf(latest: Snapshot, version: Long): Option[FileStatus] = {
    val path = FileNames.unsafeDeltaFile(latest.deltaLog.logPath, version)
    latest.logSegment.deltas.find(_.getPath.getName == path.getName).orElse {
      try Some(path.getFileSystem(latest.deltaLog.newDeltaHadoopConf()).getFileStatus(path))
      catch { case _: FileNotFoundException => None }
    }
  }

  private def read(log: DeltaLog, version: Long): Option[String] = {
    val path = FileNames.unsafeDeltaFile(log.logPath, version)
    try
      Using.resource(log.store.readAsIterator(path, log.newDeltaHadoopConf())) { lines =>
        val digest = MessageDigest.getInstance("SHA-256")
        var id = Option.empty[String]
        while (id.isEmpty && lines.hasNext) {
          val line = lines.next()
          digest.update(s"$line\n".getBytes(UTF_8))
          id = transaction(line)
        }
        id.orElse(Some(BigInt(1, digest.digest()).toString(16)))
      }
    catch { case _: FileNotFoundException => None }
  }

  private def transaction(line: String): Option[String] =
    if (!line.take(near).contains(commitInfo)) None
    else Try(parse(line) \ "commitInfo" \ "txnId").toOption.collect { case JString(id) if id.nonEmpty => id }
}
