"""The fingerprint of a query: plans with the same fingerprint have the same answer."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["Json", "fingerprint_of", "used_columns"]

Json = Mapping[str, Any]


_PLACE = ("path", "table")
"""Path and name of a table, which a fingerprint leaves out: a plan knows the table by its id."""


def fingerprint_of(plan: str, form: str = "") -> str:
    """Identify a plan. The numbers of attributes, unused columns of tables, and the paths of tables do not count."""
    document = json.loads(plan)
    sources = document["sources"]
    ids = [each["table_id"] for each in sources]
    # Copies of a table's files share its id, so the order of their paths in the plan tells them apart.
    document["sources"] = ids if len(set(ids)) == len({each["path"] for each in sources}) else sources
    used = _without(document, set(used_columns(document["plan"], wanted=True)))
    renamed = json.dumps(_numbered(used, {}), separators=(",", ":"))
    stable = re.sub(r'"(number|leaf)":\d+,?|"loop":"\w+",?|"(fails|rounds)":true,?|"tells":\[[^]]*\],?', "", renamed)
    return hashlib.sha256((json.dumps(stable) + form).encode()).hexdigest()[:16]


_IDS = frozenset({"id", "column", "inputs"})
"""Under these keys an attribute stands by its id. Anywhere else c1 is a word of the user, unless the shim has marked it."""
_ID, _MARKED = re.compile(r"c\d+"), re.compile(r"\x01c\d+")
_NAMES_OF_FILES = "stored"
"""Under this key columns of tables, by their names in the query, have their names in the files."""


def _numbered(node: Any, numbers: dict[str, str], key: str = "") -> Any:
    """Give the attributes numbers in the order of the plan: their ids differ each time."""
    match node:
        case str() if key in _IDS and _ID.fullmatch(node):
            return numbers.setdefault(node, f"a{len(numbers)}")
        case str() if _MARKED.fullmatch(node):
            return numbers.setdefault(node[1:], f"a{len(numbers)}")
        case dict() if key == _NAMES_OF_FILES:
            return node
        case dict():
            return {key: _numbered(value, numbers, key) for key, value in node.items()}
        case list():
            return [_numbered(each, numbers, key) for each in node]
        case _:
            return node


_BY_PLACE = frozenset({"Union", "Intersect", "Except", "Distinct", "Recursion"})
"""Operators that know the columns of their inputs by position, and so use all of them."""


_WITHOUT_NAMES = frozenset({"Constant", "Expand"})
"""Operators that give values to their columns by position: the name of a column does not tell which values these are."""


def used_columns(node: Json, wanted: bool) -> Iterator[str]:
    """Yield the ids that a plan uses, not those that it only hands on. With `wanted`, its own output counts as used."""
    mentioned = {key: value for key, value in node.items() if key != "children" and (wanted or key != "output")}
    numbers = dict[str, str]()
    _numbered(mentioned, numbers)
    yield from numbers
    for child in node.get("children", ()):
        yield from used_columns(child, node["op"] in _BY_PLACE or node.get("unknown", False))


_SINCE = frozenset({"ranks", "bounded", "any_order"})
"""Facts about expressions that plans of earlier releases lack."""


def _unlike(column: str) -> str:
    """Return the name of a column in a form that is no word of a plan which the fingerprint leaves out."""
    return f"\x01{column}" if column == "loop" else column


def _without(node: Any, used: set[str]) -> Any:
    """Leave out the columns that are only handed on."""
    match node:
        case {"op": _, "output": output}:
            kept = [each for each in output if each["id"] in used]
            # A struct of which the query reads fields alone is known by these.
            files = node.get("stored", {})
            stored = {_unlike(name): files[name] for each in kept if "parts" not in each and (name := each["name"]) in files}
            rest = {key: _without(value, used) for key, value in node.items() if key not in ("output", "stored", *_PLACE)}
            places = [place for place, each in enumerate(output) if each["id"] in used] if node["op"] in _WITHOUT_NAMES else []
            moved = {"places": places} if places != list(range(len(places))) else {}
            return {**rest, **moved, "output": _without(kept, used), "stored": stored}
        case {"parts": parts, **column}:
            return _without({**column, "type": parts}, used)
        case dict():
            return {key: _without(value, used) for key, value in node.items() if key not in _SINCE}
        case list():
            return [_without(each, used) for each in node]
        case _:
            return node
