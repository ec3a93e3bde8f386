package org.apache.spark.sql.streamtable

import org.apache.spark.unsafe.types.UTF8String

/** Statements that open like ours but for one word: our error says what is wrong, where Spark's would not know what is meant. */
private object Slips {

  /** `CREATE STRAEM TABLE`, `CREATE STREAMTABLE`, `SHOW REFRESH HISTROY`: asked only of what Spark cannot read. */
  def in(sql: String): Boolean = {
    val words = Openings.wordsOf(sql).take(7).toVector
    Openings.openings.filter(_.size > 1).exists { opening =>
      val typed = words.take(opening.size)
      val others = typed.zip(opening).filter { case (word, meant) => word != meant }
      typed.size == opening.size && others.size == 1 && others.forall { case (word, meant) => alike(word, meant) } ||
      words.take(opening.size - 1).mkString == opening.mkString
    }
  }

  private def alike(word: String, meant: String) =
    meant.length > 3 && UTF8String.fromString(word).levenshteinDistance(UTF8String.fromString(meant)) <= 2
}
