package org.apache.spark.sql.streamtable

import java.io.FileNotFoundException

import org.apache.spark.sql.AnalysisException

/** None for what is not there. Any other failure, of the storage or by an interrupt, says nothing about that. */
private[sql] object IfThere {
  def apply[T](look: => T): Option[T] =
    try Some(look)
    catch {
      case e: StreamTableException if e.getCondition == "STREAMTABLE_NOT_SUPPORTED" => throw e
      case e: AnalysisException if e.getCause == null => None
      case e
          if Iterator
            .iterate[Throwable](e)(_.getCause)
            .takeWhile(_ != null)
            .exists(_.isInstanceOf[FileNotFoundException]) =>
        None
    }
}
