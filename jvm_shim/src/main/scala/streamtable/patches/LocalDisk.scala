package org.apache.spark.sql.streamtable

import java.io.File
import java.net.URI
import java.nio.file.{FileAlreadyExistsException => AlreadyThere, Files, FileSystemException, Path => JavaPath}
import java.nio.file.StandardCopyOption.ATOMIC_MOVE
import java.nio.file.attribute.PosixFilePermissions

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.FsConstants.LOCAL_FS_URI
import org.apache.hadoop.fs.permission.FsPermission

/**
 * The disk of this machine. Spark does not bring Hadoop's native library. Without it Hadoop starts a process to set a file's
 * permissions, and another to see whether it is a link. Java does both itself.
 */
private[streamtable] class LocalDisk extends RawLocalFileSystem {

  def place(path: Path): JavaPath = pathToFile(path).toPath

  override def setPermission(path: Path, permission: FsPermission): Unit =
    try Files.setPosixFilePermissions(place(path), PosixFilePermissions.fromString(permission.toString.take(9)))
    catch {
      case _: UnsupportedOperationException | _: IllegalArgumentException => super.setPermission(path, permission)
    }

  /** Java says why a folder cannot be made; Hadoop, only that it cannot. */
  override protected def mkOneDirWithMode(path: Path, folder: File, permission: FsPermission): Boolean =
    try {
      Files.createDirectory(folder.toPath)
      Option(permission).foreach(setPermission(path, _))
      true
    } catch { case _: AlreadyThere => false }

  // What Hadoop asks `readlink` about is the text of a URI, which is never a link.
  override def getFileLinkStatus(path: Path): FileStatus = getFileStatus(path)
}

/** `fs.file.impl`: the files of tables. */
class LocalDiskFileSystem extends LocalFileSystem(new LocalDisk)

/** `fs.AbstractFileSystem.file.impl`: Delta's log. */
class LocalDiskFileContext(uri: URI, conf: Configuration) extends ChecksumFs(new LocalDiskContext(conf))

private[streamtable] class LocalDiskContext(disk: LocalDisk, conf: Configuration)
    extends DelegateToFileSystem(LOCAL_FS_URI, disk, conf, LOCAL_FS_URI.getScheme, false) {

  def this(conf: Configuration) = this(new LocalDisk, conf)

  override def getUriDefaultPort: Int = -1

  override def isValidName(name: String): Boolean = true

  /**
   * Gives a file its name, unless another has it: the kernel sees to that, also between processes. Hadoop looks first and renames
   * then, so that of two commits of the same version at the same moment one would be lost.
   */
  override def renameInternal(from: Path, to: Path, overwrite: Boolean): Unit = {
    val (source, target) = (disk.place(from), disk.place(to))
    if (Files.isDirectory(source) || Files.isDirectory(target)) super.renameInternal(from, to, overwrite)
    else
      try
        if (overwrite) Files.move(source, target, ATOMIC_MOVE)
        else {
          Files.createLink(target, source)
          Files.delete(source)
        }
      catch {
        case _: AlreadyThere => throw new org.apache.hadoop.fs.FileAlreadyExistsException(s"$to exists already")
        // A disk without links, or what Hadoop has words for.
        case _: FileSystemException | _: UnsupportedOperationException => super.renameInternal(from, to, overwrite)
      }
  }
}
