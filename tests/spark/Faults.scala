package streamtable.tests

import java.io.IOException
import java.util.concurrent.ThreadLocalRandom
import java.util.concurrent.atomic.AtomicInteger

import org.apache.hadoop.fs.{FileStatus, FSDataInputStream, FSDataOutputStream, LocalFileSystem, Path}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/** How often a call of the FaultyFileSystem fails, and how often it takes long; both from 0 to 1. */
object Faults {
  @volatile private var failing, slow = 0.0
  private val count = new AtomicInteger

  def set(failing: Double, slow: Double): Unit = { this.failing = failing; this.slow = slow }

  def injected: Int = count.get

  /** Acts, but may fail before, or when it is done: who asked cannot know which. */
  def around[A](act: => A): A = {
    strike()
    val done = act
    strike()
    done
  }

  private def strike(): Unit = {
    val random = ThreadLocalRandom.current
    if (random.nextDouble() < slow) Thread.sleep(random.nextLong(300))
    if (random.nextDouble() < failing) {
      count.incrementAndGet()
      throw new IOException("injected fault")
    }
  }
}

/** The local file system, with faults where files come into being or are opened, and where folders are listed. */
class FaultyFileSystem extends LocalFileSystem {
  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable): FSDataOutputStream =
    Faults.around(super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress))

  override def open(path: Path, bufferSize: Int): FSDataInputStream = Faults.around(super.open(path, bufferSize))

  override def listStatus(path: Path): Array[FileStatus] = Faults.around(super.listStatus(path))

  override def rename(from: Path, to: Path): Boolean = Faults.around(super.rename(from, to))
}
