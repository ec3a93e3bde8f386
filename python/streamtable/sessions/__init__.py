"""Sessions of Spark: those of our own queries, those of servers over Spark Connect, and those of clients."""
