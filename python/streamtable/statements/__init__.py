"""Statements are carried out: from a statement to the rows of its answer."""
