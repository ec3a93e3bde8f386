"""`streamtable demo`: a shop whose tables are kept up to date, before one's eyes, in two minutes.

`worker` is the process with Spark: it does everything, measures it and tells it as events. `play` starts it, sees it killed, and
starts another one. `story` holds what the events said, and `view` draws it. `shop` is the SQL.
"""
