"""The statements that hold a query, a condition or columns: a form for each place of the grammar (tests/unit/test_mentions.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["COLUMNS", "CONDITIONS", "QUERIES"]

Holder = Callable[[str], str]

QUERIES: Mapping[str, Holder] = {
    "create": lambda text: f"CREATE STREAM TABLE made_of_it AS {text}",
    "explain create": lambda text: f"EXPLAIN CREATE STREAM TABLE made_of_it AS {text}",
    "or replace": lambda text: f"CREATE OR REPLACE STREAM TABLE kept AS {text}",
    "alter": lambda text: f"ALTER STREAM TABLE kept AS {text}",
    "explain alter": lambda text: f"EXPLAIN ALTER STREAM TABLE kept AS {text}",
    "subscribe": lambda text: f"SUBSCRIBE TO ({text}\n)",
    "copy": lambda text: f"COPY (SUBSCRIBE TO ({text}\n)) TO STDOUT",
    "declare": lambda text: f"DECLARE c CURSOR FOR SUBSCRIBE TO ({text}\n)",
    "queue": lambda text: f"CREATE QUEUE made_of_it FOR SUBSCRIBE TO ({text}\n)",
}
"""Those that hold a query."""

CONDITIONS: Mapping[str, Holder] = {
    "when": lambda text: f"CREATE QUEUE made_of_it ON victim WHEN ({text}\n)",
    "retry": lambda text: f"RETRY EVENTS FROM read FOR reader WHERE ({text}\n) AFTER '1m'",
    "give up": lambda text: f"GIVE UP EVENTS FROM read FOR reader WHERE ({text}\n)",
    "replay": lambda text: f"REPLAY DEAD LETTERS FROM read FOR reader WHERE ({text}\n)",
    "publication": lambda text: f"CREATE PUBLICATION made_of_it FOR TABLE victim WHERE ({text}\n)",
    "publication, second table": lambda text: f"CREATE PUBLICATION made_of_it FOR TABLE other, victim (a) WHERE ({text}\n)",
    "add to a publication": lambda text: f"ALTER PUBLICATION published ADD TABLE victim WHERE ({text}\n)",
    "add to a publication, second table": lambda text: f"ALTER PUBLICATION published ADD TABLE other, victim WHERE ({text}\n)",
    "set a publication": lambda text: f"ALTER PUBLICATION published SET TABLE victim (a) WHERE ({text}\n)",
    "set a publication, second table": lambda text: f"ALTER PUBLICATION published SET TABLE other, victim WHERE ({text}\n)",
    "subquery": lambda text: f"CREATE PUBLICATION made_of_it FOR TABLE victim WHERE (EXISTS ({text}\n))",
    "expectation": lambda text: f"CREATE STREAM TABLE made_of_it (CONSTRAINT c EXPECT ({text}\n)) AS SELECT a FROM victim",
    "frozen": lambda text: f"CREATE STREAM TABLE made_of_it FROZEN WHERE ({text}\n) AS SELECT a FROM victim",
    "columns": lambda text: f"CREATE QUEUE made_of_it ON victim COLUMNS ({text}\n)",
    "explain expectation": lambda text: f"EXPLAIN {CONDITIONS['expectation'](text)}",
    "explain frozen": lambda text: f"EXPLAIN {CONDITIONS['frozen'](text)}",
    "added expectation": lambda text: f"ALTER STREAM TABLE kept ADD CONSTRAINT c EXPECT ({text}\n)",
    "set frozen": lambda text: f"ALTER STREAM TABLE kept SET FROZEN WHERE ({text}\n)",
}
"""Those that hold an expression."""

COLUMNS: Mapping[str, Holder] = {"events": lambda text: f"CREATE QUEUE made_of_it ({text}\n)"}
"""Those that hold columns: names and types, and nothing that is evaluated."""
