package org.apache.spark.sql.delta.streamtable

import java.io.{FileNotFoundException, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path => JavaPath, Paths}

import scala.util.chaining.scalaUtilChainingOps

import org.apache.hadoop.fs.{FileSystem, LocalFileSystem, Path}
import org.apache.spark.sql.SparkSession

/**
 * Small files in a folder of any storage, without the checksums that Hadoop writes beside those of a local disk. A link in the place of
 * the folder or the file is not followed: who may write there could have another file overwritten, or deleted, by its means.
 */
private[streamtable] object SmallFiles {
  private val attempts = 10

  def write(spark: SparkSession, path: Path, text: String): Unit = {
    val fs = storage(spark, path)
    for (each <- Seq(path.getParent, path) if link(fs, each)) throw new IOException(s"$each is a link: delete it")
    write(fs, path, text, attempts)
  }

  /** Another process may take the folder away, empty as it was, before the file is in it. */
  private def write(fs: FileSystem, path: Path, text: String, left: Int): Unit =
    try {
      val out = fs.create(path, true)
      try out.write(text.getBytes(UTF_8))
      finally out.close()
    } catch { case e: IOException if left > 1 && gone(fs, path.getParent, e) => write(fs, path, text, left - 1) }

  /** Java does not find the folder, or Hadoop, which saw it a moment before, says that it could not make it. */
  private def gone(fs: FileSystem, folder: Path, error: IOException): Boolean = error match {
    case _: FileNotFoundException => true
    case _ => local(fs) && !fs.exists(folder)
  }

  /**
   * The name, the time in milliseconds since 1970 and the text of each file; a file that goes meanwhile is left out. An empty folder goes:
   * whoever deleted its last file was killed before it was deleted too.
   */
  def read(spark: SparkSession, folder: Path): Seq[(String, Long, String)] = {
    val fs = storage(spark, folder)
    val listed =
      try if (link(fs, folder)) Nil else fs.listStatus(folder).toSeq.tap(files => if (files.isEmpty) clear(fs, folder))
      catch { case _: FileNotFoundException => Nil }
    listed.filterNot(each => link(fs, each.getPath)).flatMap { each =>
      try {
        val in = fs.open(each.getPath)
        try Some((each.getPath.getName, each.getModificationTime, new String(in.readAllBytes(), UTF_8)))
        finally in.close()
      } catch { case _: FileNotFoundException => None }
    }
  }

  /** Deletes a file, and its folder where it was the last one. */
  def delete(spark: SparkSession, path: Path): Unit = {
    val (fs, folder) = (storage(spark, path), path.getParent)
    if (!link(fs, folder)) {
      fs.delete(path, false)
      clear(fs, folder)
    }
  }

  /** Deletes a folder where nothing is in it. On a local disk Hadoop would look first, and delete what came since. */
  private def clear(fs: FileSystem, folder: Path): Unit =
    try {
      if (local(fs)) Files.deleteIfExists(place(folder))
      else if (fs.exists(folder) && fs.listStatus(folder).isEmpty) fs.delete(folder, false)
    } catch { case _: IOException => } // another file has come, or nobody may delete here

  def isLink(spark: SparkSession, path: Path): Boolean = link(storage(spark, path), path)

  def link(fs: FileSystem, path: Path): Boolean = local(fs) && Files.isSymbolicLink(place(path))

  def local(fs: FileSystem): Boolean = fs.getUri.getScheme == "file"

  /** A path of a local disk as Java knows it. */
  def place(path: Path): JavaPath = Paths.get(path.toUri.getPath)

  private def storage(spark: SparkSession, path: Path): FileSystem =
    path.getFileSystem(spark.sessionState.newHadoopConf()) match {
      case disk: LocalFileSystem => disk.getRaw
      case other => other
    }
}
