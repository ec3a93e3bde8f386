package org.apache.spark.sql.streamtable

import org.apache.spark.unsafe.types.UTF8String

/** Statements that open like ours but for one word: our error says what is wrong, where Spark's would not know what is meant. */
private object Slips {

  /** What people try, and what no statement opens with: `language/openings.py` says what to write instead. */
  private val tried = {
    val alone = Seq("SUSPEND", "PAUSE", "STOP", "DISABLE", "RESUME", "START", "UNPAUSE", "ENABLE", "RENAME") ++
      Seq("OPTIMIZE", "VACUUM", "ANALYZE", "TRUNCATE", "UNDROP", "DESCRIBE HISTORY", "DESC HISTORY") ++
      Seq("DESCRIBE EXTENDED", "DESC EXTENDED", "DESCRIBE FORMATTED", "DESC FORMATTED")
    val explains = Seq("EXTENDED", "FORMATTED", "CODEGEN", "COST").map("EXPLAIN " + _)
    val creates = for {
      create <- Seq("CREATE", "CREATE OR REPLACE", "CREATE OR REFRESH")
      word <- Seq("PRIVATE", "TEMPORARY", "TEMP")
    } yield s"$create $word"
    val verbs = alone ++ explains ++ explains.map(_ + " CREATE") ++ creates
    val ofTables = for (verb <- verbs; kind <- Seq("STREAM TABLE", "MATERIALIZED VIEW")) yield s"$verb $kind"
    (ofTables ++ Seq("APPLY CHANGES INTO", "AUTO CDC INTO", "SHOW HISTORY", "VERIFY TABLE")).map(_.split(' ').toSeq)
  }

  /** Words of pipelines: `language/pipelines.py` says which stream table they mean. */
  private val ofPipelines = for {
    verb <- Seq("CREATE", "CREATE OR REPLACE", "CREATE OR REFRESH", "REFRESH", "ALTER", "DROP")
    hidden <- Seq("", " PRIVATE", " TEMPORARY", " TEMP")
    kind <- Seq("STREAMING TABLE", "LIVE TABLE", "LIVE VIEW", "STREAMING LIVE TABLE", "STREAMING LIVE VIEW")
  } yield s"$verb$hidden $kind".split(' ').toSeq

  /** `CREATE FLOW a.b AS AUTO CDC INTO`: of a flow Spark knows INSERT INTO alone. */
  private def isFlow(words: Seq[String]) =
    words.startsWith(Seq("CREATE", "FLOW")) && words.containsSlice(Seq("AS", "AUTO", "CDC", "INTO"))

  /** `CREATE STRAEM TABLE`, `CREATE STREAMTABLE`, `SHOW REFRESH HISTROY`: asked only of what Spark cannot read, or not carry out. */
  def in(sql: String): Boolean = {
    val first = Openings.wordsOf(sql).take(16).toVector
    (tried ++ ofPipelines).exists(first.startsWith(_)) || isFlow(first) || near(first.take(7))
  }

  private def near(words: Vector[String]) =
    Openings.openings.filter(_.size > 1).exists { opening =>
      val typed = words.take(opening.size)
      val others = typed.zip(opening).filter { case (word, meant) => word != meant }
      typed.size == opening.size && others.size == 1 && others.forall { case (word, meant) => alike(word, meant) } ||
      words.take(opening.size - 1).mkString == opening.mkString
    }

  private def alike(word: String, meant: String) =
    meant.length > 3 && UTF8String.fromString(word).levenshteinDistance(UTF8String.fromString(meant)) <= 2
}
