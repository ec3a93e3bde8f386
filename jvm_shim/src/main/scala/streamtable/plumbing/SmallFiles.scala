package org.apache.spark.sql.delta.streamtable

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8

import org.apache.hadoop.fs.{FileSystem, LocalFileSystem, Path}
import org.apache.spark.sql.SparkSession

/** Small files in a folder of any storage, without the checksums that Hadoop writes beside those of a local disk. */
private[streamtable] object SmallFiles {
  private val attempts = 10

  def write(spark: SparkSession, path: Path, text: String): Unit = write(storage(spark, path), path, text, attempts)

  /** Another process may take the folder away, empty as it was, before the file is in it. */
  private def write(fs: FileSystem, path: Path, text: String, left: Int): Unit =
    try {
      val out = fs.create(path, true)
      try out.write(text.getBytes(UTF_8))
      finally out.close()
    } catch { case _: FileNotFoundException if left > 1 => write(fs, path, text, left - 1) }

  /** The name, the time in milliseconds since 1970 and the text of each file; a file that goes meanwhile is left out. */
  def read(spark: SparkSession, folder: Path): Seq[(String, Long, String)] = {
    val fs = storage(spark, folder)
    val listed =
      try fs.listStatus(folder).toSeq
      catch { case _: FileNotFoundException => Nil }
    listed.flatMap { each =>
      try {
        val in = fs.open(each.getPath)
        try Some((each.getPath.getName, each.getModificationTime, new String(in.readAllBytes(), UTF_8)))
        finally in.close()
      } catch { case _: FileNotFoundException => None }
    }
  }

  /** Deletes a file, and its folder where it was the last one. */
  def delete(spark: SparkSession, path: Path): Unit = {
    val fs = storage(spark, path)
    fs.delete(path, false)
    try if (fs.exists(path.getParent) && fs.listStatus(path.getParent).isEmpty) fs.delete(path.getParent, false)
    catch { case _: java.io.IOException => } // another file has come
  }

  private def storage(spark: SparkSession, path: Path): FileSystem =
    path.getFileSystem(spark.sessionState.newHadoopConf()) match {
      case disk: LocalFileSystem => disk.getRaw
      case other => other
    }
}
