"""Settings: of a session (spark.streamtable.*), of the file streamtable.toml, and those that Spark starts with."""
