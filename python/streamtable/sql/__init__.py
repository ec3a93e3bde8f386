"""Spark's SQL as text: the builder of generated queries, and the spelling of names and strings."""
