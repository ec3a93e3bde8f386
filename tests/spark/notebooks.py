"""Notebooks of Jupyter, run without a browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import nbclient
import nbformat
from tests.spark.hosts import Answer, answer, failure


def in_cells(folder: Path, statements: Sequence[str]) -> list[Answer]:
    """Run statements by cells of a notebook, in a kernel of its own: on the server that SPARK_REMOTE names, or by itself."""
    cells = ["%load_ext streamtable", *(f"%%sql\n{statement}" for statement in statements)]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])  # type: ignore[no-untyped-call]
    where = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=where, allow_errors=True).execute()

    def said(cell: Any) -> Answer:
        output = cell.outputs[-1]
        if output["output_type"] == "error":
            # The text of an error of Spark ends with its plan or, over Spark Connect, with Java's stack: no cell shows these.
            assert output["evalue"].startswith("\n".join(output["traceback"])), output["traceback"]
            return failure(output["evalue"])
        table, _, note = output["data"]["text/html"].partition("<small>")
        if not table:
            assert note.startswith("done, "), note
            return Answer()
        head, *rows = [[field.text or "" for field in row] for row in ET.fromstring(table).iter("tr")]  # noqa: S314  (our own)
        return answer(head, [[{"True": "true", "False": "false"}.get(value, value) for value in row] for row in rows])

    return [said(cell) for cell in notebook.cells[1:]]


class Watching(nbclient.NotebookClient):
    """Run a notebook, and keep what its cells show, also what is replaced later."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.shown = list[str]()

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        self.shown.append(msg["content"].get("data", {}).get("text/plain", ""))
        return super().process_message(msg, cell, cell_index)
