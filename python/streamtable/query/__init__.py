"""The user's query: rewritten for Spark, analysed, identified by a fingerprint, and checked."""
