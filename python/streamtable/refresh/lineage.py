"""Events of OpenLineage: which columns of which sources each column of a stream table is made of, at each refresh.

Events are sent by a thread of their own: a receiver that does not answer delays no refresh.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import cached_property, lru_cache
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from streamtable.algebra.lineage import origins
from streamtable.catalog.entries import Entry, table_columns
from streamtable.query.analyse import AnalysedQuery
from streamtable.settings.session import LINEAGE, value_or_default, without_secrets

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient

__all__ = ["Report", "reported", "sent"]

log = logging.getLogger("streamtable.lineage")

PRODUCER = "https://streamtable"
NAMESPACE = "streamtable"
WAITING = 1000
"""So many events may wait for the receiver; what comes then is left out."""


class Report:
    """One refresh, as events tell it. Without a client nothing is told."""

    def __init__(self, entry: Entry, client: OpenLineageClient | None) -> None:
        self._entry, self._client = entry, client
        self._analysed: AnalysedQuery | None = None
        self._rows: int | None = None

    def analysed(self, analysed: AnalysedQuery) -> None:
        """Say what the query is: its columns are known from here on."""
        self._analysed = analysed

    def done(self, rows: int) -> None:
        """Say how many rows were inserted."""
        self._rows = rows

    def begin(self) -> None:
        if self._client:
            self._send("START")

    def end(self, error: BaseException | None = None) -> None:
        if self._client:
            self._send("FAIL" if error else "COMPLETE", error)

    def _send(self, state: str, error: BaseException | None = None) -> None:
        assert self._client is not None, "somebody listens"
        try:
            sent(self._client.emit, self._event(state, error))
        except Exception as lost:  # whatever it is, it is no error of the refresh, which may have committed
            log.warning("an event of OpenLineage is lost: %s", lost)

    @cached_property
    def _id(self) -> str:
        from openlineage.client.uuid import generate_new_uuid

        return str(generate_new_uuid())

    def _event(self, state: str, error: BaseException | None) -> Any:
        from openlineage.client import event_v2 as event
        from openlineage.client.facet_v2 import error_message_run, sql_job

        definition = self._entry.definition
        facets = {"errorMessage": error_message_run.ErrorMessageRunFacet(str(error), "SQL")} if error else {}
        return event.RunEvent(
            eventTime=datetime.now(timezone.utc).isoformat(),
            producer=PRODUCER,
            eventType=event.RunState(state),
            run=event.Run(self._id, facets),  # type: ignore[arg-type]
            job=event.Job(NAMESPACE, definition.name, {"sql": sql_job.SQLJobFacet(definition.statement.query.text, "spark")}),
            inputs=[event.InputDataset(*_place(path), facets=_names(name)) for path, name in definition.sources.items()],
            outputs=[self._output()],
        )

    def _output(self) -> Any:
        from openlineage.client import event_v2 as event
        from openlineage.client.facet_v2 import output_statistics_output_dataset, schema_dataset

        entry = self._entry
        fields = [schema_dataset.SchemaDatasetFacetFields(each.name, each.dataType.simpleString()) for each in entry.state.schema]
        facets: dict[str, Any] = {**_names(entry.definition.name), "schema": schema_dataset.SchemaDatasetFacet(fields)}
        if self._analysed:
            facets["columnLineage"] = _columns(table_columns(entry), self._analysed)
        counted = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(self._rows)
        rows = {} if self._rows is None else {"outputStatistics": counted}
        return event.OutputDataset(*_place(entry.path), facets=facets, outputFacets=rows)  # type: ignore[arg-type]


@contextmanager
def reported(spark: SparkSession, entry: Entry) -> Iterator[Report]:
    """Send an event when the block begins and when it ends, where the application asks for them."""
    run = Report(entry, _client(spark))
    run.begin()
    try:
        yield run
    except BaseException as error:
        run.end(error)
        raise
    run.end()


def _client(spark: SparkSession) -> OpenLineageClient | None:
    """Return who sends. The setting counts as the application started with it: clients of a server must not write files."""
    address = value_or_default(LINEAGE, spark.sparkContext._conf.get(LINEAGE.key))  # getConf copies each of some hundred values
    return _connected(address) if address else None


@lru_cache(maxsize=8)
def _connected(address: str) -> OpenLineageClient | None:
    try:
        return _client_of(address)
    except Exception as error:  # whatever it is, the refresh goes on
        log.warning("no event of OpenLineage is sent to %s: %s", without_secrets(address), error)
        return None


def _client_of(address: str) -> OpenLineageClient:
    from openlineage.client import OpenLineageClient
    from openlineage.client.transport.file import FileConfig, FileTransport
    from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport

    place = urlsplit(address)
    if place.scheme == "file":
        return OpenLineageClient(transport=FileTransport(FileConfig(place.path, append=True)))
    key = os.environ.get("OPENLINEAGE_API_KEY")
    auth = {"auth": ApiKeyTokenProvider({"apiKey": key})} if key else {}
    retry = {"total": 1, "backoff_factor": 0.3}
    return OpenLineageClient(transport=HttpTransport(HttpConfig(address, timeout=5, retry=retry, **auth)))  # type: ignore[arg-type]


_room = BoundedSemaphore(WAITING)


@lru_cache(maxsize=1)
def _sender() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="streamtable lineage")


def sent(emit: Callable[[Any], object], event: Any) -> None:
    """Send an event soon; what goes wrong is logged, and is no error of the refresh."""

    def send() -> None:
        try:
            emit(event)
        except Exception as error:  # whatever it is, the next event is to be sent
            log.warning("an event of OpenLineage is lost: %s", error)
        finally:
            _room.release()

    if _room.acquire(blocking=False):
        try:
            _sender().submit(send)
        except RuntimeError:  # the process ends
            _room.release()
            raise
    else:
        log.warning("an event of OpenLineage is lost: %d wait already", WAITING)


def _place(path: str) -> tuple[str, str]:
    """Return namespace and name of a dataset, as OpenLineage names files."""
    found = urlsplit(path)
    return (f"{found.scheme}://{found.netloc}" if found.netloc else "file"), found.path


def _names(name: str) -> dict[str, Any]:
    from openlineage.client.facet_v2 import symlinks_dataset

    if name.startswith("delta.`"):
        return {}
    return {"symlinks": symlinks_dataset.SymlinksDatasetFacet([symlinks_dataset.Identifier(NAMESPACE, name, "TABLE")])}


def _columns(names: list[str], analysed: AnalysedQuery) -> Any:
    from openlineage.client.facet_v2 import column_lineage_dataset as facet

    fields = {
        name: facet.Fields([facet.InputField(*_place(source.path), column) for source, column in sorted(found, key=str)])
        for name, found in zip(names, origins(analysed.tree), strict=True)
        if found
    }
    return facet.ColumnLineageDatasetFacet(fields)
