"""Spans of OpenTelemetry: the phases of a refresh, and how long each takes. Without `traced` around it, a phase is free.

An error of OpenTelemetry is logged, and is none of the work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

__all__ = ["phase", "tell", "traced"]

log = logging.getLogger("streamtable.traces")

_tracer: ContextVar[Any] = ContextVar("streamtable tracer", default=None)


@contextmanager
def traced(wanted: bool, name: str, **attributes: str | int) -> Iterator[None]:
    """Make a span of the block, and of each phase in it, by the process's own provider."""
    if not wanted:
        yield
        return
    token = _tracer.set(_quietly(_get_tracer))
    try:
        with phase(name, **attributes):
            yield
    finally:
        _tracer.reset(token)


@contextmanager
def phase(name: str, **attributes: str | int) -> Iterator[None]:
    """Make a span of the block, where somebody traces; an error in it is the span's."""
    if (tracer := _tracer.get()) is None:
        yield
        return
    span = _quietly(partial(_opened, tracer, name))
    try:
        tell(**attributes)
        yield
    except BaseException as error:
        if span is not None:
            _quietly(partial(span.__exit__, type(error), error, error.__traceback__))
        raise
    if span is not None:
        _quietly(partial(span.__exit__, None, None, None))


def tell(**attributes: str | int) -> None:
    """Add attributes to the span that is open."""
    if _tracer.get() is not None:
        _quietly(partial(_set, attributes))


def _get_tracer() -> Any:
    from opentelemetry.trace import get_tracer

    return get_tracer("streamtable")


def _opened(tracer: Any, name: str) -> Any:
    span = tracer.start_as_current_span(f"streamtable.{name}")
    span.__enter__()
    return span


def _set(attributes: dict[str, str | int]) -> None:
    from opentelemetry.trace import get_current_span

    for key, value in attributes.items():
        get_current_span().set_attribute(f"streamtable.{key}", value)


def _quietly(do: Callable[[], Any]) -> Any:
    try:
        return do()
    except Exception as error:  # whatever it is, the refresh goes on
        log.warning("a span of OpenTelemetry is lost: %s", error)
        return None
