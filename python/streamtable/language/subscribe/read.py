"""Trees of SUBSCRIBE and its cursors to statements."""

from __future__ import annotations

import re
from typing import Any

from lark import Token, v_args
from lark.tree import Meta

from streamtable.language.names import Name, Query
from streamtable.language.subscribe.ast import (
    CloseCursor,
    CopyToStdout,
    Debezium,
    DeclareCursor,
    Fetch,
    OrderItem,
    Subscribe,
    Upsert,
    WithinTimestamp,
)
from streamtable.language.transformer import MOST_DIGITS, Clause, Rules
from streamtable.sql.literals import unquote_string

_MAXIMUM_COUNT = 2**31 - 1  # a Java list holds no more rows
_TIMES = "write a whole number, as the column `timestamp` shows it: a version of the table, which DESCRIBE HISTORY lists"


@v_args(meta=True, inline=True)
class SubscribeRules(Rules):
    """The rules of SUBSCRIBE, COPY, DECLARE, FETCH and CLOSE."""

    at_least = Rules.flag

    def subscribe(self, at: Meta, relation: Name | Query, *clauses: Clause) -> Subscribe:
        fields = {field: clause.value for field, clause in self._given(clauses).items()}
        return Subscribe(relation, **fields.pop("options", {}), **fields.pop("as_of", {}), **fields)

    def upsert(self, at: Meta, *key: Token) -> Clause:
        return Clause("an output modifier", "modifier", Upsert(self._columns(key)), at)

    def debezium(self, at: Meta, *key: Token) -> Clause:
        return Clause("an output modifier", "modifier", Debezium(self._columns(key)), at)

    def within_timestamp(self, at: Meta, *order: OrderItem) -> Clause:
        return Clause("an output modifier", "modifier", WithinTimestamp(order), at)

    def order_item(self, at: Meta, by: Token | int, direction: bool | None, nulls_first: bool | None) -> OrderItem:
        return OrderItem(str(by) if isinstance(by, Token) else by, bool(direction), nulls_first)

    def ordinal(self, at: Meta, token: Token) -> int:
        if len(token) > MOST_DIGITS:
            raise self._invalid(at, f"there is no column {token[:40]}", "write the name of a column, or its number")
        return int(token)

    def direction(self, at: Meta, token: Token) -> bool:
        return token.type == "_DESC"

    def nulls(self, at: Meta, token: Token) -> bool:
        return token.type == "_FIRST"

    def with_options(self, at: Meta, *options: tuple[str, bool, Meta]) -> Clause:
        values = dict[str, bool]()
        for name, value, where in options:
            if name in values:
                raise self._invalid(where, f"the option {name.upper()} is written twice", "leave one of them out")
            values[name] = value
        return Clause("WITH", "options", values, at)

    def with_option(self, at: Meta, name: Token, equal: Token | None, value: Token | None) -> tuple[str, bool, Meta]:
        if equal is not None and value is None:
            raise self._invalid(at, f"{name.upper()} is set to nothing", "write TRUE or FALSE behind the =")
        return name.lower(), value is None or value.type == "_TRUE", at

    def as_of(self, at: Meta, at_least: Meta | None, time: int) -> Clause:
        return Clause("AS OF", "as_of", {"as_of": time, "at_least": at_least is not None}, at)

    def up_to(self, at: Meta, time: int) -> Clause:
        return Clause("UP TO", "up_to", time, at)

    def bound(self, at: Meta, first: int, *rest: Any) -> int:
        signs, operands = rest[::2], rest[1::2]
        time: int = first + sum(-operand if sign == "-" else operand for sign, operand in zip(signs, operands, strict=True))
        if time < 0:
            raise self._invalid(at, f"there is no time {time}", _TIMES)
        return time

    def operand(self, at: Meta, sign: Token | None, value: Token) -> int:
        text = unquote_string(value) if value.type == "STRING" else re.sub(r"(?<=[0-9])[a-z]+$", "", value, flags=re.IGNORECASE)
        if not re.fullmatch(r"[0-9]{1,38}", text):
            raise self._invalid(at, f"{value} is no time of the relation", _TIMES)
        return -int(text) if sign == "-" else int(text)

    def copy(self, at: Meta, subscribe: Subscribe) -> CopyToStdout:
        return CopyToStdout(subscribe)

    def declare(self, at: Meta, cursor: Token, subscribe: Subscribe) -> DeclareCursor:
        return DeclareCursor(str(cursor), subscribe)

    def fetch(self, at: Meta, count: Token | None, cursor: Token, timeout: str | None) -> Fetch:
        rows = 1 if count is None else None if count.type == "ALL" else self._count(count)
        return Fetch(str(cursor), rows, None if timeout is None else self._milliseconds(at, timeout))

    def close(self, at: Meta, cursor: Token) -> CloseCursor:
        return CloseCursor(str(cursor))

    def _count(self, token: Token) -> int:
        if len(token) > len(str(_MAXIMUM_COUNT)) or int(token) > _MAXIMUM_COUNT:
            raise self._invalid(token, "the number of rows is too large", f"write at most {_MAXIMUM_COUNT}, or ALL")
        return int(token)
