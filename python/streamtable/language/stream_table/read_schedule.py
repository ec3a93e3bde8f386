"""The rules of schedules: each schedule is read with the shortest time between two refreshes that is allowed here."""

from __future__ import annotations

from lark import Token, v_args
from lark.tree import Meta

from streamtable.language.stream_table import schedule
from streamtable.language.stream_table.schedule import Cron, Every, Immediate, OnUpdate, Schedule
from streamtable.language.transformer import Clause, Rules
from streamtable.sql.literals import unquote_string

__all__ = ["ScheduleRules"]


@v_args(meta=True, inline=True)
class ScheduleRules(Rules):
    """The rules of the clause SCHEDULE, in CREATE and in ALTER."""

    def schedule_clause(self, at: Meta, value: Schedule) -> Clause:
        return Clause("SCHEDULE", "schedule", value, at)

    def every(self, at: Meta, token: Token) -> Every:
        return self._at(at, lambda: schedule.duration(unquote_string(token), self._minimum))

    def interval(self, at: Meta, number: Token, unit: Token) -> Every:
        return self._at(at, lambda: schedule.duration(f"{number}{unit[0].lower()}", self._minimum))

    span = interval

    def quoted_span(self, at: Meta, text: Token, unit: Token | None) -> Every:
        return self._at(at, lambda: schedule.interval(f"{unquote_string(text)} {unit or ''}".strip(), self._minimum))

    def on_update(self, at: Meta, at_most: Every | None = None) -> OnUpdate:
        return self._at(at, lambda: schedule.on_update(at_most, self._minimum))

    def immediate(self, at: Meta) -> Immediate:
        return self._at(at, lambda: schedule.immediate(self._minimum))

    def cron(self, at: Meta, expression: Token, zone: Token | None) -> Cron:
        zone_name = None if zone is None else unquote_string(zone)
        return self._at(at, lambda: schedule.cron(unquote_string(expression), zone_name, stored=self._stored))
