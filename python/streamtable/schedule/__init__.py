"""Which stream tables are to be refreshed when, in which order, and at which versions; the loop that does it."""
