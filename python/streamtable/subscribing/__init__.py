"""SUBSCRIBE: the changes of a table, a view or a query, as rows, in order."""
