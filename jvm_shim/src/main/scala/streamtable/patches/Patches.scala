package org.apache.spark.sql.streamtable

/**
 * The switches of what is here for speed alone, or mends a fault of Spark, Delta, Hadoop or py4j: with one off, theirs does the work.
 * `spark.streamtable.patches.off` lists those that are off, to find out which is at fault; there is a row for each in
 * docs/explanation/architecture.md.
 */
private[sql] object Patches {
  val setting = "spark.streamtable.patches.off"

  val names: Seq[String] = Seq(
    "append once",
    "empty checksum",
    "files of a version",
    "grown vectors",
    "held rows",
    "listed once",
    "literals by reference",
    "metastore thread",
    "origins of settings",
    "page bounds",
    "prompt connections")

  @volatile private var off = Set.empty[String]

  def isOn(name: String): Boolean = {
    assert(names.contains(name), name)
    !off(name)
  }

  /** Switches off what is listed, with commas between, and on all else. */
  def switchOff(list: String): Unit = {
    val listed = list.split(',').map(_.trim).filter(_.nonEmpty).toSet
    (listed -- names).headOption.foreach { unknown =>
      throw StreamTableException(
        "STREAMTABLE_INVALID_STATEMENT",
        "42000",
        s"$setting names '$unknown', which is no patch",
        s"take names of this list: ${names.mkString(", ")}.")
    }
    off = listed
  }
}
