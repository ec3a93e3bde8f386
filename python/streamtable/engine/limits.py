"""All thresholds of the engine. Read as `limits.X` when they count, so that a test or a bisect can set them."""

from __future__ import annotations

REMEMBERED_RUNS = 8
"""How many refreshes are remembered: what is older is no longer true, and what was a slip is forgotten."""

FULL_SHARE_AT_FIRST = 0.15
"""The share of changed rows from which on recomputing is taken to be cheaper, until runs have told."""

NEGLIGIBLE_ROWS = 10_000
"""Rows that cost nothing to speak of: below, a share says nothing."""

SIMILAR_SIZE = 4
"""A full refresh of a table so many times smaller or larger tells nothing about this one: its fixed part is another."""

SMALL_CHANGE = 200_000
"""So many changed rows, or what they touch, may be handed to every task."""

SAVED_MILLISECONDS = 1000
"""Milliseconds that a full refresh must save to be chosen for its cost: below, the two only take turns with the machine's noise."""

DRIVER_ROWS = 50_000
"""Rows that the driver may hold of one frame."""

LARGE_ARRANGEMENT = 200_000
"""An arrangement of more groups is not read whole for the sake of a few."""

DIFFERENCE_ONE_IN = 2
"""Where more than one row in so many goes, finding them costs more than it saves the readers."""

BROADCAST_ROWS = 1_000_000
"""So many rows that go may pass through the driver, to be handed to every task; more are shuffled, as Spark sees fit."""

PARTITION_BYTES = 64 << 20
"""Bytes of the sources for each partition of a shuffle. What a change touches is less: most partitions are nearly empty."""

ADAPTIVE_PARTITIONS = 34
"""Partitions from which on the empty ones among them cost more than planning again."""

SMALL_FILE_BYTES, FULL_FILE_BYTES = 32 << 20, 128 << 20
DELETED_SHARE = 0.2
"""A file of which so much is deleted is written anew: each reader looks its rows up in the deletion vector."""

DRIVER_OPERATIONS = 5_000
"""Operations that the driver holds: with more of them, to plan what reads them takes longer than a job."""

KEPT_CHANGE_ROWS = 10_000
"""So many rows of a change are held in memory; of more, one partition at a time is."""
