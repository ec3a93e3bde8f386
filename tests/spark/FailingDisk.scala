package org.apache.spark.sql.streamtable

import java.io.IOException
import java.net.URI
import java.util.concurrent.atomic.AtomicInteger

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/**
 * When the disk fails: at the event `at`, counted from 1, with `text` as the words of the operating system. With `dead` it
 * answers nothing any more from there on, as if the process had been killed, until it is set anew.
 */
object FailingDisk {
  private val count = new AtomicInteger
  @volatile private var (at, dead, text) = (0, false, "")

  def set(at: Int, dead: Boolean, text: String): Unit = {
    count.set(0); this.at = at; this.dead = dead; this.text = text
  }

  /** How many events there were since it was set. */
  def events: Int = count.get

  private[streamtable] def event[A](act: => A): A = {
    val n = count.incrementAndGet()
    if (at > 0 && (n == at || dead && n > at)) throw new IOException(s"/disk: $text")
    act
  }

  private val looked = new AtomicInteger
  @volatile private var refused = 0

  /** Lets one look at files fail, counted from 1, and no other; none where it is 0. */
  def refuse(look: Int): Unit = { looked.set(0); refused = look }

  /** How many looks there were since then. */
  def looks: Int = looked.get

  private[streamtable] def look[A](act: => A): A = {
    if (looked.incrementAndGet() == refused) throw new IOException("/disk: Forbidden")
    if (dead && at > 0 && count.get >= at) throw new IOException(s"/disk: $text") else act
  }
}

class FailingDisk extends LocalDisk {
  import FailingDisk.{event, look}

  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable): FSDataOutputStream =
    event(super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress))

  override def create(
      path: Path,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable): FSDataOutputStream =
    event(super.create(path, overwrite, bufferSize, replication, blockSize, progress))

  override def createNonRecursive(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable): FSDataOutputStream =
    event(super.createNonRecursive(path, permission, overwrite, bufferSize, replication, blockSize, progress))

  override def rename(from: Path, to: Path): Boolean = event(super.rename(from, to))

  override def delete(path: Path, recursive: Boolean): Boolean =
    event(look(super.delete(path, recursive)))

  override def mkdirs(path: Path): Boolean = if (pathToFile(path).isDirectory) true else event(super.mkdirs(path))

  override def open(path: Path, bufferSize: Int): FSDataInputStream = look(super.open(path, bufferSize))

  override def listStatus(path: Path): Array[FileStatus] = look(super.listStatus(path))

  override def getFileStatus(path: Path): FileStatus = look(super.getFileStatus(path))
}

/** `fs.file.impl` */
class FailingFileSystem extends LocalFileSystem(new FailingDisk)

/** `fs.AbstractFileSystem.file.impl` */
class FailingFileContext(uri: URI, conf: Configuration) extends ChecksumFs(new FailingContext(conf))

private[streamtable] class FailingContext(conf: Configuration) extends LocalDiskContext(new FailingDisk, conf) {
  override def renameInternal(from: Path, to: Path, overwrite: Boolean): Unit =
    FailingDisk.event(super.renameInternal(from, to, overwrite))
}
