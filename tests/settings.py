"""Settings of Spark that the sessions of the tests share, whichever process they run in."""

LEAN = {
    "spark.buffer.pageSize": "1m",  # each broadcast relation takes a page, 64 MB by default: a fifth of the time was garbage collection
    "spark.sql.ui.explainMode": "simple",  # a description of each plan, and of each that an adaptive one becomes, is written in any case
}
"""What changes no plan."""

QUICK = LEAN | {
    # Thousands of plans run once each, on a few rows: compiling them costs a quarter of the time.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Outside UTC Delta reads the whole log after each commit, to see that it knows the files of the table.
    "spark.databricks.delta.allFilesInCrc.verificationMode.forceOnNonUTC.enabled": "false",
}
"""These, and what only `./run fuzz` does without, in its own process."""
