"""Change queues: statements as data, read from the grammar's trees, and written as text."""
