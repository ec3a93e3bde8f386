"""Carrying out statements: from a statement to the rows of its answer."""
