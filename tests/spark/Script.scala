import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.SparkThrowable
import org.apache.spark.sql.SparkSession

/**
 * Runs the statements of a file, one per line, and writes each answer as a line of JSON: a job for spark-submit, loaded by spark-shell.
 */
object Script {

  def main(arguments: Array[String]): Unit = {
    val Array(statements, answers) = arguments.map(Path.of(_))
    val spark = SparkSession.builder().getOrCreate()
    Files.write(answers, Files.readAllLines(statements).asScala.map(answer(spark, _)).asJava)
  }

  private def answer(spark: SparkSession, statement: String): String =
    try {
      val frame = spark.sql(statement)
      json(
        "columns" -> frame.columns,
        "rows" -> frame.collect().map(_.toSeq.map(value => if (value == null) "NULL" else value.toString).toArray),
        "condition" -> "")
    } catch {
      case error: SparkThrowable =>
        json("condition" -> error.getCondition, "sqlstate" -> error.getSqlState, "message" -> error.getMessage)
    }

  private def json(fields: (String, AnyRef)*): String = new ObjectMapper().writeValueAsString(fields.toMap.asJava)
}
