"""Each patch of Spark, Delta, Hadoop and py4j has a name, a switch and a row in the docs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHIM = ROOT / "jvm_shim" / "src" / "main" / "scala" / "streamtable"
NAMES = re.findall(r'^    "([a-z ]+)"', (SHIM / "patches" / "Patches.scala").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_docs_have_a_row_for_each_patch() -> None:
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    table = text.split("## Patches\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")][2:]
    assert [row[0] for row in rows] == NAMES
    sources = {path.name: path.read_text(encoding="utf-8") for path in SHIM.rglob("*.scala")}
    for name, file, *rest in rows:
        assert f'Patches.isOn("{name}")' in sources[file.strip("`")], f"{name} has its switch elsewhere"
        assert len(rest) == 3 and all(rest)


def test_no_switch_has_another_name() -> None:
    asked = {name for path in SHIM.rglob("*.scala") for name in re.findall(r'isOn\("([^"]*)"\)', path.read_text(encoding="utf-8"))}
    assert asked == set(NAMES)
