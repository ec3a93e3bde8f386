package org.apache.spark.sql.streamtable

import java.util.{Map => JavaMap}

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.mapred.JobConf
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession

/**
 * Where each of Hadoop's thousand settings was set. Spark broadcasts a copy of the settings with each scan, and Delta sends one
 * with each task if files have deletion vectors. Most of such a copy is a compressed stream of origins, which only a print of the
 * settings reads.
 */
object Origins extends Logging {
  private val origins = Try {
    val field = classOf[Configuration].getDeclaredField("updatingResource")
    field.setAccessible(true)
    field
  }.toOption

  /** Values stay what they are. A Hadoop that keeps its origins elsewhere keeps them, and the log says so. */
  def forget(spark: SparkSession): Unit = if (Patches.isOn("origins of settings")) {
    new JobConf(false) // its class adds defaults, the first time, and all configurations read theirs again then
    val settings = spark.sparkContext.hadoopConfiguration
    settings.synchronized {
      settings.size() // reads what was not read yet
      if (origins.isEmpty) logWarning("Hadoop keeps the origins of its settings elsewhere; each scan sends them along")
      origins.flatMap(field => Option(field.get(settings).asInstanceOf[JavaMap[_, _]])).foreach(_.clear())
    }
  }
}
