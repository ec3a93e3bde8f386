package org.apache.spark.sql.streamtable

import java.io.{FileNotFoundException, IOException}
import java.lang.{Boolean => JavaBoolean}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.FileAlreadyExistsException
import java.security.MessageDigest
import java.util.{Iterator => JavaIterator}

import scala.util.Using
import scala.util.control.NonFatal

import io.delta.storage.S3SingleDriverLogStore
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

/**
 * Commits of Delta in S3, of any number of drivers: the store itself refuses a name that is taken, by a PUT with a condition
 * (If-None-Match). Delta's own store for S3 looks first and writes then, so that of two drivers the later one overwrites a commit.
 *
 * Where Hadoop's connector has no such PUT (before 3.4.2, or switched off), this is Delta's own store.
 */
class S3LogStore(conf: Configuration) extends S3SingleDriverLogStore(conf) {
  import S3LogStore._

  override def write(path: Path, actions: JavaIterator[String], overwrite: JavaBoolean, conf: Configuration): Unit = {
    val fs = path.getFileSystem(conf)
    if (overwrite || !fs.hasPathCapability(path, conditional)) super.write(path, actions, overwrite, conf)
    else if (!put(fs, path, actions, conf)) throw new FileAlreadyExistsException(path.toString)
  }

  /** Whether the file is there with these lines: an answer may be lost, and a PUT that is tried again finds its own file. */
  private def put(fs: FileSystem, path: Path, actions: JavaIterator[String], conf: Configuration): Boolean = {
    val written = MessageDigest.getInstance("SHA-256")
    val out = fs.createFile(path).overwrite(false).recursive().must(conditional, true).build()
    try
      actions.forEachRemaining { line =>
        val bytes = s"$line\n".getBytes(UTF_8)
        written.update(bytes)
        out.write(bytes)
      }
    catch {
      case NonFatal(e) =>
        out.abort() // closing would commit the first lines
        throw e
    }
    try {
      out.close()
      true
    } catch {
      case e: IOException if taken(e) =>
        MessageDigest.isEqual(written.digest(), digest(path, conf))
    }
  }

  private def digest(path: Path, conf: Configuration): Array[Byte] =
    try
      Using.resource(read(path, conf)) { lines =>
        val found = MessageDigest.getInstance("SHA-256")
        lines.forEachRemaining(line => found.update(s"$line\n".getBytes(UTF_8)))
        found.digest()
      }
    catch { case _: FileNotFoundException => Array.empty }
}

private object S3LogStore {
  private val conditional = "fs.option.create.conditional.overwrite"

  /** The connector's errors for a condition that does not hold; their classes are in a jar that need not be there. */
  private def taken(error: Throwable): Boolean =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).exists { each =>
      each.isInstanceOf[org.apache.hadoop.fs.FileAlreadyExistsException] ||
      each.getClass.getSimpleName == "RemoteFileChangedException" ||
      Option(each.getMessage).exists(_.contains("Status Code: 412"))
    }
}
