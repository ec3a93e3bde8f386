"""The server: Thrift, Spark Connect, metrics and the scheduler in one process."""
