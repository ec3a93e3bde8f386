package org.apache.spark.sql.streamtable

import org.apache.spark.{SPARK_VERSION, SparkEnv}
import org.apache.spark.sql.SparkSessionExtensions

/** Entry for `spark.sql.extensions`; listed after Delta's, because the last injected parser is asked first. */
class StreamTableExtension extends (SparkSessionExtensions => Unit) {

  override def apply(extensions: SparkSessionExtensions): Unit = {
    if (!SPARK_VERSION.startsWith(s"${Versions.spark}."))
      throw StreamTableException(
        "STREAMTABLE_NOT_ENABLED",
        "55000",
        s"this jar of streamtable is for Spark ${Versions.spark}, and this is Spark $SPARK_VERSION",
        s"take streamtable-shim-${SPARK_VERSION.split('.').take(2).mkString(".")}.jar, which a wheel of the package has.")
    Patches.switchOff(SparkEnv.get.conf.get(Patches.setting, ""))
    extensions.injectParser((session, delegate) => new StreamTableParser(session, delegate))
    // Twice: an error of a check rule reaches callers as a copy without the SQLSTATE and with the plan in its text.
    // A plan that is checked without being analysed, as that of DeltaTable.merge(), passes no other rule.
    extensions.injectPostHocResolutionRule(session => DirectWriteCheck(session, replaces = true))
    extensions.injectCheckRule(session => plan => DirectWriteCheck(session)(plan))
    extensions.injectPostHocResolutionRule(session => Followed(session))
    extensions.injectPlannerStrategy(session => FollowedMerge(session))
    Versions.inject(extensions)
    extensions.injectPostHocResolutionRule(_ => Shown)
    extensions.injectPostHocResolutionRule(_ => CheckedSettings)
    extensions.injectPostHocResolutionRule(session => OutsidePipelines(session))
    Pins.inject(extensions)
    TableFunctions.inject(extensions)
    HeldRows.inject(extensions)
    Sessions.inject(extensions)
    extensions.injectFunction((ExpressionRegistry.identifier, ExpressionRegistry.info, ExpressionRegistry.build _))
    extensions.injectFunction((PartitionValues.identifier, PartitionValues.info, PartitionValues.build _))
    extensions.injectFunction((Shaped.identifier, Shaped.info, Shaped.build _))
    extensions.injectFunction((Identity.identifier, Identity.info, Identity.build _))
    extensions.injectFunction((ReferredLiteral.identifier, ReferredLiteral.info, ReferredLiteral.build _))
  }
}
