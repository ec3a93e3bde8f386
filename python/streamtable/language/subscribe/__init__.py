"""SUBSCRIBE and cursors: statements as data, read from the grammar's trees, and written as text."""
