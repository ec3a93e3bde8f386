"""The catalog: what a stream table is, kept in the properties of its own Delta table, and who reads whom."""
