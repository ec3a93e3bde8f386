"""Computing changes with Spark: sources as views, kept frames, arrangements, rows by position, recursions, tuning."""
