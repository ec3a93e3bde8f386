package org.apache.spark.sql.delta.streamtable

import java.util.{Collections, LinkedHashMap, Map => JavaMap}

/** What a driver remembers for all threads: the values that were asked for latest. */
private[streamtable] object Recent {

  /** A map that forgets the value that was not asked for the longest, where it holds too many. */
  def map[K, V](holdsTooMany: JavaMap[K, V] => Boolean): JavaMap[K, V] =
    Collections.synchronizedMap(new LinkedHashMap[K, V](64, 0.75f, true) {
      override def removeEldestEntry(eldest: JavaMap.Entry[K, V]): Boolean = holdsTooMany(this)
    })
}
