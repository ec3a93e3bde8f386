"""All thresholds of the engine. Read as `limits.X` when they count, so that a test or a bisect can set them."""

from __future__ import annotations

REMEMBERED_RUNS = 8
"""The number of refreshes whose costs are remembered. Older ones no longer fit; an outlier is soon forgotten."""

FULL_SHARE_AT_FIRST = 0.15
"""The share of changed rows above which a full refresh counts as cheaper, until costs of earlier refreshes are known."""

NEGLIGIBLE_ROWS = 10_000
"""The number of changed rows whose cost is negligible; below it the share of changed rows does not count."""

SIMILAR_SIZE = 4
"""A full refresh of a table so many times smaller or larger does not predict this one, because its fixed cost differs."""

SMALL_CHANGE = 200_000
"""The number of changed rows, or of rows that they can meet, that may be handed to every task."""

SAVED_MILLISECONDS = 1000
"""Milliseconds that a full refresh must save to be chosen for its cost. Smaller differences are noise of the machine."""

DRIVER_ROWS = 50_000
"""Rows that the driver may hold of one frame."""

LARGE_ARRANGEMENT = 200_000
"""An arrangement with more groups is not read as a whole for a few groups."""

DIFFERENCE_ONE_IN = 2
"""If more than one row in so many goes, locating the rows costs more than a small commit saves its readers."""

BROADCAST_ROWS = 1_000_000
"""The number of removed rows that may be broadcast to every task, through the driver. For more, Spark chooses the join."""

PARTITION_BYTES = 64 << 20
"""Bytes of the sources per partition of a shuffle. A small change reads fewer bytes, so most partitions are nearly empty."""

ADAPTIVE_PARTITIONS = 34
"""Above this number of partitions, the empty ones cost more than adaptive execution."""

SMALL_FILE_BYTES, FULL_FILE_BYTES = 32 << 20, 128 << 20
DELETED_SHARE = 0.2
"""A file with a larger share of deleted rows is rewritten, because each reader must look its rows up in the deletion vector."""

DRIVER_OPERATIONS = 5_000
"""The number of replicated operations that the driver holds. More of them take longer to plan than a job takes."""

KEPT_CHANGE_ROWS = 10_000
"""The number of rows of a change that are held in memory. Larger changes are read one partition at a time."""
