"""SUBSCRIBE: how a table, a view or a query changes, as rows, in order."""
