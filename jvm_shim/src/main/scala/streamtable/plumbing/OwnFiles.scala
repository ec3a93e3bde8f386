package org.apache.spark.sql.delta.streamtable

import java.io.{FileNotFoundException, IOException}
import java.nio.file.{DirectoryNotEmptyException, Files, NoSuchFileException}
import java.util.UUID

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileStatus, FileSystem, Path, PathIsNotEmptyDirectoryException}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.{DeltaColumnMapping, DeltaLog, Snapshot}
import org.apache.spark.sql.delta.actions.FileAction
import org.apache.spark.sql.delta.util.DeltaFileOperations.absolutePath

/**
 * The files that belong to a table: those that its log names, those that Delta began and did not commit, its log, and `_streamtable`.
 * Nothing else in its folder is touched, and no symbolic link is followed, one in the place of the folder included.
 */
private[streamtable] class OwnFiles(spark: SparkSession, root: Path) {
  private val fs: FileSystem = root.getFileSystem(spark.sessionState.newHadoopConf())
  private val local = SmallFiles.local(fs)

  /**
   * Deletes them, the log last: as long as it is there, who comes next can go on. Uncommitted files are recognised by name only, and
   * Spark's own Parquet files have such names too. So they are deleted only if written by `until`, when no other table used the folder.
   * A log with commits that cannot be read is somebody's table: nothing is deleted then.
   */
  def delete(until: Long): Unit = if (!link(root)) {
    val known = snapshot
    val named = known.map(logged).getOrElse(Set.empty).map(fs.makeQualified).filter(inside)
    named.toSeq.asJava.parallelStream().forEach(remove(_))
    val folders = named.map(_.getParent) + root ++ partitions(root, known.map(prefixes).getOrElse(Nil))
    for (folder <- folders if inside(folder) || folder == root; each <- children(folder) if begun(each, until))
      remove(each.getPath)
    removeAll(new Path(root, "_change_data"), own = false)
    removeAll(hidden, own = true)
    hide()
    removeAll(hidden, own = true)
    DeltaLog.invalidateCache(spark, root)
    folders.toSeq.sortBy(-_.depth).foreach(prune)
  }

  /** Writes a file and deletes it: storage that lets go of nothing says so before the table has lost its name. */
  def probe(): Unit = if (!link(root) && fs.exists(root)) {
    val file = new Path(root, s"${OwnFiles.probe}${UUID.randomUUID}")
    SmallFiles.write(spark, file, "")
    remove(file)
  }

  private val log = new Path(root, "_delta_log")
  private val hidden = new Path(root, "_streamtable")

  /** Takes the log away in one step: one of which some files are gone could be anybody's. Another process may do the same. */
  private def hide(): Unit = {
    val moved =
      try !fs.exists(log) || fs.rename(log, hidden)
      catch { case _: FileNotFoundException => true }
    if (!moved && fs.exists(log)) throw new IOException(s"$log could not be moved to $hidden")
  }

  private def snapshot: Option[Snapshot] =
    if (link(log)) None
    else
      try Some(DeltaLog.forTable(spark, root).update()).filter(_.version >= 0)
      catch { case NonFatal(_) if !children(log).exists(_.getPath.getName.matches(OwnFiles.commit)) => None }

  private def logged(snapshot: Snapshot): Set[Path] = {
    val table = snapshot.deltaLog
    val commits = table.getChanges(0).toSeq
    val earlier: Iterator[FileAction] =
      if (commits.headOption.exists(_._1 == 0)) Iterator.empty
      else
        snapshot.allFiles.toLocalIterator().asScala ++ snapshot.tombstones.toLocalIterator().asScala
    val actions = earlier ++ commits.iterator.flatMap(_._2).collect { case file: FileAction => file }
    actions.flatMap { file =>
      val vector = Option(file.deletionVector).filter(_.isOnDisk).map(_.absolutePath(table.dataPath))
      absolutePath(table.dataPath.toString, file.path) +: vector.toSeq
    }.toSet
  }

  /** How the folders are called in which Delta writes files of this table: by partition, or by two letters under column mapping. */
  private def prefixes(snapshot: Snapshot): Seq[String => Boolean] = {
    val metadata = snapshot.metadata
    val physical = metadata.partitionSchema.map(DeltaColumnMapping.getPhysicalName)
    val partitions = (physical ++ metadata.partitionColumns).map(name => (_: String).startsWith(s"$name="))
    partitions :+ ((_: String).matches("[A-Za-z0-9]{2}"))
  }

  private def partitions(folder: Path, called: Seq[String => Boolean]): Seq[Path] = {
    val inner =
      children(folder).filter(each => each.isDirectory && called.exists(_(each.getPath.getName))).map(_.getPath)
    inner.filterNot(each => link(each) || fs.exists(new Path(each, "_delta_log"))).flatMap { each =>
      each +: partitions(each, called)
    }
  }

  /**
   * Whether Delta began a file, or a DROP that was killed. Deletion vectors, whose files Delta makes before it needs them, and our
   * probe bear names that nothing else has.
   */
  private def begun(file: FileStatus, until: Long): Boolean = {
    val name = file.getPath.getName
    !file.isDirectory && (name.matches(s"deletion_vector_${OwnFiles.uuid}\\.bin|${OwnFiles.probe}${OwnFiles.uuid}") ||
      file.getModificationTime <= until && name.matches(s"part-\\d+-${OwnFiles.uuid}[.-]c\\d+.*\\.parquet"))
  }

  /** Whether a path lies in the folder, with no link on the way. */
  private def inside(path: Path): Boolean = {
    val above = Iterator.iterate(path)(_.getParent).takeWhile(each => each != null && each != rooted).toSeq
    above.lastOption.exists(_.getParent == rooted) && !above.drop(1).exists(link) && !path.toUri.getPath.contains(
      "/../")
  }

  private lazy val rooted = fs.makeQualified(root)

  private def link(path: Path): Boolean = SmallFiles.link(fs, path)

  private def children(folder: Path): Seq[FileStatus] =
    try fs.listStatus(folder).toSeq
    catch { case _: FileNotFoundException => Nil }

  /** Hadoop answers for the local disk that a file could not be deleted; Java says why. */
  private def remove(path: Path, recursive: Boolean = false): Unit =
    if (!fs.delete(path, recursive) && (link(path) || fs.exists(path))) {
      if (local)
        try Files.delete(SmallFiles.place(path))
        catch { case _: NoSuchFileException => }
      else throw new IOException(s"$path could not be deleted")
    }

  private def removeAll(folder: Path, own: Boolean): Unit =
    if (link(folder)) { if (own) Files.delete(SmallFiles.place(folder)) }
    else if (own) {
      for (each <- children(folder)) if (each.isDirectory) removeAll(each.getPath, own) else remove(each.getPath)
      if (fs.exists(folder)) remove(folder, recursive = true)
    } else {
      for (each <- children(folder))
        if (each.isDirectory) removeAll(each.getPath, own)
        else if (each.getPath.getName.matches(s"cdc-\\d+-${OwnFiles.uuid}[.-]c\\d+.*\\.parquet")) remove(each.getPath)
      prune(folder)
    }

  /** Takes a folder away that has nothing in it any more, and those above it in the table. */
  private def prune(folder: Path): Unit =
    if (fs.exists(folder) && !link(folder) && children(folder).isEmpty && taken(folder) && inside(folder))
      prune(folder.getParent)

  /** Takes away a folder that has nothing but checksums of files that are gone. What comes to it at that moment stays, and so does it. */
  private def taken(folder: Path): Boolean =
    try {
      if (local) {
        val left = Option(SmallFiles.place(folder).toFile.list).toSeq.flatten
        left
          .filter(_.matches("\\..+\\.crc"))
          .foreach(name => Files.deleteIfExists(SmallFiles.place(folder).resolve(name)))
        Files.deleteIfExists(SmallFiles.place(folder))
      } else remove(folder)
      true
    } catch {
      case _: DirectoryNotEmptyException | _: PathIsNotEmptyDirectoryException => false
      case _: IOException if children(folder).nonEmpty => false // stores have errors of their own for that
    }
}

private[streamtable] object OwnFiles {

  /** How commits and checkpoints are called. */
  private val commit = "\\d{20}\\.(json|checkpoint.*)"
  private val probe = "_streamtable_drop_"
  private val uuid = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
}
