"""The statement language: text to statements and back. Nothing here knows Spark or a table."""
