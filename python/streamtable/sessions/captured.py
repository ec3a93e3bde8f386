"""The settings that decide what a query means: captured at CREATE, and set again for each analysis."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pyspark.sql import SparkSession

from streamtable.jvm.gateway import java_class

__all__ = ["CAPTURED", "captured_settings", "unset_others"]

CAPTURED = (
    "spark.sql.ansi.enabled",
    "spark.sql.session.timeZone",
    "spark.sql.caseSensitive",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.groupByOrdinal",
    "spark.sql.groupByAliases",
    "spark.sql.orderByOrdinal",
    "spark.sql.legacy.sizeOfNull",
)
"""The settings that change what a query means. Every definition holds their values."""

_CHANGING = re.compile(
    r"spark\.sql\.("
    r"legacy\..*"  # what an older Spark did
    r"|(ansi|function|functionResolution|collation|tvf)\..*"  # names, quotes, types and functions
    # How text is read; not the limits of the parser's memory.
    r"|parser\.(escapedStringLiterals|quotedRegexColumnNames|singleCharacterPipeOperator\.enabled)"
    r"|operatorPipeSyntaxEnabled|allowNamedFunctionArguments|lateralColumnAlias\.enableImplicitResolution"
    r"|cteRecursionLevelLimit|cteRecursionRowLimit|pivotMaxValues|transposeMaxValues|crossJoin\.enabled"  # what is still an answer
    r"|timestampType|charAsVarchar|readSideCharPadding|preserveCharVarcharTypeInfo"  # what a type is
    r"|chunkBase64String\.enabled|icu\.caseMappings\.enabled"  # what functions give
    r"|jsonGenerator\..*|json\..*|csv\..*|xml\..*|avro\..*|columnNameOfCorruptRecord|variant\.allowDuplicateKeys"
    # How files that are not Delta's are read.
    r"|sources\.partitionColumnTypeInference\.enabled|orc\.mergeSchema"
    r"|parquet\.(mergeSchema|binaryAsString|int96AsTimestamp|inferTimestampNTZ\.enabled|(datetime|int96)RebaseModeInRead)"
    r"|analyzer\.(lowerEmptyGroupingSetToGlobalAggregate|preferColumnOverLcaInArrayIndex)\.?.*"
    r")"
)
"""Further settings that change what a query means. A definition holds those that are set. Settings of speed are not among them."""


def captured_settings(spark: SparkSession) -> dict[str, str]:
    """Read the values of the settings that change what a query means, with defaults: sessions may have different ones."""
    return {key: str(spark.conf.get(key)) for key in CAPTURED} | _unusual(spark)


def unset_others(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Leave Spark's default to each setting that a definition does not hold. The configuration of this process may have another."""
    for key in _unusual(session).keys() - settings.keys():
        session.conf.unset(key)


def _unusual(spark: SparkSession) -> dict[str, str]:
    modified = {key: value for key, value in sorted(_set_in(spark).items()) if _CHANGING.fullmatch(key)}
    return {key: value for key, value in modified.items() if key not in CAPTURED and spark.conf.isModifiable(key)}


def _set_in(spark: SparkSession) -> dict[str, str]:
    """Return all settings of a session by one call. PySpark calls the JVM three times per setting."""
    mapper = java_class(spark, "com.fasterxml.jackson.databind.ObjectMapper")()
    found: dict[str, str] = json.loads(mapper.writeValueAsString(spark._jsparkSession.conf().getAllAsJava()))
    return found
