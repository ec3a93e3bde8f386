"""The order of the house: who imports whom, who touches Spark, and how long a file or a function may be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import streamtable
from streamtable.errors import all_errors

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "streamtable"
# Lowest first. A room imports itself and the lines above its own; a room is a folder, a module, or a part of a folder.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("tracing",),
    ("sql",),
    ("language",),
    ("algebra",),
    ("differentiate",),
    ("jvm",),
    ("settings/session", "settings/server_file"),
    ("settings",),
    ("delta",),
    ("sessions",),
    ("catalog",),
    ("query",),
    ("engine",),
    ("refresh", "subscribing"),
    ("definitions",),
    ("schedule",),
    ("queue", "replication"),
    ("observe",),
    ("statements",),
    ("api",),
    ("hosts", "hosts/launch", "hosts/progress", "hosts/roles", "hosts/start", "hosts/words"),
    ("hosts/session",),
    ("hosts/console",),
    ("hosts/jvm_child", "hosts/notebook", "hosts/server"),
    ("hosts/cli",),
    ("__init__",),
    ("__main__",),
)
HEIGHT = {room: height for height, rooms in enumerate(LAYERS) for room in rooms}
WITHOUT_SPARK = ("errors", "tracing", "sql", "language", "algebra", "differentiate", "settings/session", "settings/server_file")
SPARK_IN_PART = {
    "errors": "pyspark.errors",  # ours are caught by who catches Spark's
    "settings/session": "pyspark.sql",  # settings are read from the session that is handed in
}
LONGEST_FILE, LONGEST_FUNCTION = 300, 60
ANY_LENGTH = ("errors.py",)  # one class after the other: to read it whole is to read a table


def room_of(path: Path) -> str:
    """Return the room of a file, given its path inside the package: a folder, or a part of one that has several."""
    parts = path.with_suffix("").parts
    return part if (part := "/".join(parts[:2])) in HEIGHT else parts[0]


def test_no_room_hides_a_public_name() -> None:
    """The import of a submodule sets its name in the package, over a function of the same name."""
    assert [name for name in streamtable.__all__ if (PACKAGE / name).exists() or (PACKAGE / f"{name}.py").exists()] == []


def imported(tree: ast.AST, path: Path) -> Iterator[str]:
    """Yield the full name of everything that is imported: at the top, in functions, and for the type checker."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module, names, 0):
                yield from (f"{module}.{name.name}" for name in names)
            case ast.ImportFrom(module, names, level):
                package = ("streamtable", *path.parts)[: -(level or 1)]
                yield from (".".join((*package, *filter(None, (module, name.name)))) for name in names)


def forbidden_imports(source: str, path: Path) -> list[str]:
    """Return the imports of a file that go up, sideways, or to Spark from where Spark must not be touched."""
    room, found = room_of(path), []
    for name in imported(ast.parse(source), path):
        top, _, rest = name.partition(".")
        if top == "streamtable":
            target = room_of(Path(*rest.split(".")))
            target = target if target in HEIGHT else "__init__"
            if target != room and HEIGHT[target] >= HEIGHT[room]:
                found.append(f"{path} imports {name}, which is not below it")
        elif top in ("pyspark", "py4j", "delta") and room in WITHOUT_SPARK:
            part = SPARK_IN_PART.get(room)
            if part is None or not f"{name}.".startswith(f"{part}."):
                found.append(f"{path} imports {name}: {room} does not touch Spark")
    return found


def too_long(source: str, path: Path) -> list[str]:
    """Return what exceeds the bounds in a file."""
    lines = source.count("\n")
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    lengths = [(node.name, (node.end_lineno or 0) - node.lineno + 1) for node in functions]
    return [
        *([f"{path} has {lines} lines"] if lines > LONGEST_FILE and str(path) not in ANY_LENGTH else []),
        *(f"{path}: {name} has {length} lines" for name, length in lengths if length > LONGEST_FUNCTION),
    ]


_WRITING = re.compile(
    r"\s*(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|OPTIMIZE|VACUUM|RESTORE|(ALTER|DROP|CREATE|CREATE OR REPLACE) TABLE)\b", re.IGNORECASE
)


def around_the_door(source: str, path: Path) -> list[str]:
    """Return what a file outside of delta/ does to Delta tables by itself: its classes, the bridge, its log, statements that write."""
    tree, found = ast.parse(source), list[str]()
    if room_of(path) == "delta":
        return found
    for name in imported(tree, path):
        if f"{name}.".startswith(("delta.", "streamtable.delta.bridge.")):
            found.append(f"{path} imports {name}")
    for node in ast.walk(tree):
        match node:
            case ast.Constant(str(text)) if "_delta_log" in text or "spark.sql.delta.streamtable" in text:
                found.append(f"{path}:{node.lineno} says {text!r}")
            case ast.Attribute(ast.Attribute(attr="write" | "writeStream")) | ast.Attribute(attr="writeTo"):
                found.append(f"{path}:{node.lineno} writes a frame")
            case ast.Call(ast.Attribute(attr="sql"), [ast.Constant(str(text)) | ast.JoinedStr([ast.Constant(str(text)), *_]), *_]):
                found += [f"{path}:{node.lineno} runs {text}"] if _WRITING.match(text) else []
    return found


FILES = sorted(PACKAGE.rglob("*.py"))


def test_every_room_has_a_place_in_the_order() -> None:
    rooms = {room_of(file.relative_to(PACKAGE)) for file in FILES}
    assert rooms <= HEIGHT.keys(), "put the new room into LAYERS, and into the table of CONTRIBUTING.md"
    assert {"errors", "sql", "hosts/session"} <= rooms  # the package was found


def test_the_map_in_contributing_names_every_room() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = {file.relative_to(PACKAGE).parts[0].removesuffix(".py") for file in FILES} - {"__init__"}
    missing = [room for room in sorted(rooms) if f"{room}/`" not in text and f"{room}.py`" not in text]
    assert missing == []


def walks() -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.partition("walks\n")[2].partition("\n## ")[0]


def is_there(said: str) -> bool:
    """Tell whether a file or folder of the walks is there: from the root, within the package, or by its name within a room."""
    pattern = said.rstrip("/").replace("/.../", "/**/").replace("<family>", "*").replace("<stem>", "*")
    return any(any(root.glob(each)) for root in (ROOT, PACKAGE) for each in (pattern, f"*/{pattern}", f"*/*/{pattern}"))


def test_each_file_of_the_walks_in_contributing_is_where_they_say() -> None:
    said = [each for each in re.findall(r"`([^` ]+)`", walks()) if re.search(r"/|\.[a-z]+$", each)]
    files = [each for each in said if "-V/" not in each and each != "./run"]
    assert [each for each in files if not is_there(each)] == []
    assert len(files) > 30 and not is_there("differentiate/no_such_rule.py")


def test_each_name_of_the_walks_in_contributing_is_in_the_code() -> None:
    names = set(re.findall(r"`([A-Za-z_]+)(?:\([^`]*\))?`", walks())) - {path.name for path in (ROOT / "docs").iterdir()}
    code = [PACKAGE.rglob("*.py"), (ROOT / "jvm_shim").rglob("*.scala"), (ROOT / "manual").glob("*.yml"), [Path(__file__)]]
    text = "\n".join(file.read_text("utf-8") for files in code for file in files)
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", text)] == []
    assert {"RULES", "PAIRS", "read_setting"} <= names


def test_imports_run_downwards() -> None:
    found = [line for file in FILES for line in forbidden_imports(file.read_text("utf-8"), file.relative_to(PACKAGE))]
    assert found == []


def test_files_and_functions_are_short() -> None:
    found = [line for file in FILES for line in too_long(file.read_text("utf-8"), file.relative_to(PACKAGE))]
    assert found == []


def test_every_error_is_a_class_of_errors_py() -> None:
    # jvm/originals.py looks an error's class up by its condition, once: one that is imported later would be lost.
    defined = {file.relative_to(PACKAGE): ast.walk(ast.parse(file.read_text("utf-8"))) for file in FILES}
    known = {kind.__name__ for kind in all_errors()}
    elsewhere = [
        f"{path}: {node.name}"
        for path, nodes in defined.items()
        for node in nodes
        if isinstance(node, ast.ClassDef) and str(path) != "errors.py" and known & {ast.unparse(base) for base in node.bases}
    ]
    assert elsewhere == []


def test_every_module_starts_alike() -> None:
    for file in FILES:
        tree = ast.parse(file.read_text("utf-8"))
        assert ast.get_docstring(tree), f"{file} has no docstring"
        if any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in tree.body):
            assert "__future__.annotations" in imported(tree, file), f"{file} lacks from __future__ import annotations"


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("language/parse.py", "from streamtable.algebra.operators import Scan"),
        ("language/parse.py", "from streamtable import algebra"),
        ("language/parse.py", "from ..algebra import operators"),
        ("language/parse.py", "from .. import algebra"),
        ("language/parse.py", "import streamtable.hosts.session"),
        ("language/parse.py", "from streamtable import configure"),
        ("language/parse.py", "def late():\n    from streamtable.refresh import choose"),
        ("jvm/callback.py", "import streamtable.settings.spark"),
        ("hosts/notebook.py", "from streamtable.hosts.server import serve"),
        ("algebra/read.py", "from pyspark.sql import SparkSession"),
        ("errors.py", "from pyspark.sql import SparkSession"),
        ("differentiate/join.py", "import py4j"),
        ("refresh/run.py", "from streamtable.schedule import cycle"),
    ],
)
def test_a_wrong_import_is_found(path: str, source: str) -> None:
    assert len(forbidden_imports(source, Path(path))) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("language/parse.py", "from streamtable.language.names import Name"),
        ("language/parse.py", "from .names import Name"),
        ("language/parse.py", "from streamtable.errors import InternalError"),
        ("errors.py", "from pyspark.errors import PySparkException"),
        ("refresh/choose.py", "import pyspark.sql"),
        ("statements/dispatch.py", "from streamtable.refresh import choose"),
    ],
)
def test_a_right_import_is_left_alone(path: str, source: str) -> None:
    assert forbidden_imports(source, Path(path)) == []


def test_what_is_too_long_is_found() -> None:
    function = "def f():\n" + "    g()\n" * LONGEST_FUNCTION
    for each in (function, f"{function}class C:\n    def f(self):\n        g()\n", f"async {function}"):
        assert too_long(each, Path("sql/x.py")) == ["sql/x.py: f has 61 lines"]
    assert too_long("x = 1\n" * (LONGEST_FILE + 1), Path("sql/x.py")) == ["sql/x.py has 301 lines"]


def test_sessions_are_made_in_one_place() -> None:
    makes = {str(file.relative_to(PACKAGE)) for file in FILES if re.search(r"(new|clone)Session\(\)", file.read_text("utf-8"))}
    assert makes == {"sessions/internal.py"}, "a session of ours needs settings without which answers are wrong"


def test_delta_is_the_only_door_to_delta() -> None:
    found = [line for file in FILES for line in around_the_door(file.read_text("utf-8"), file.relative_to(PACKAGE))]
    assert found == [], "put it into a module of delta/, and call that"


@pytest.mark.parametrize(
    "source",
    [
        "from delta.tables import DeltaTable",
        "import delta",
        "from streamtable.delta.bridge import translated",
        "from streamtable.delta import bridge",
        'names(spark, f"{path}/_delta_log")',
        'java_class(spark, "org.apache.spark.sql.delta.streamtable.DeltaBridge")',
        'rows.write.format("delta").save(path)',
        "rows.writeTo(table).append()",
        "rows.writeStream.start(path)",
        'spark.sql(f"DROP TABLE IF EXISTS {name}")',
        'spark.sql(f"INSERT INTO {name} VALUES (1)")',
        'session.sql("delete from t")',
    ],
)
def test_a_way_around_the_door_is_found(source: str) -> None:
    assert len(around_the_door(source, Path("queue/retries.py"))) == 1
    assert around_the_door(source, Path("delta/ddl.py")) == []


@pytest.mark.parametrize(
    "source",
    [
        "from streamtable.delta.tables import state",
        "from streamtable.delta import ddl",
        "sys.stderr.write(text)",
        'spark.sql(f"SHOW TABLES IN {name}")',
        'hint = f"ALTER TABLE {name} SET TBLPROPERTIES (a = true)"',
    ],
)
def test_a_way_through_the_door_is_left_alone(source: str) -> None:
    assert around_the_door(source, Path("queue/retries.py")) == []


def test_names_of_our_columns_are_said_in_one_place() -> None:
    said = dict[str, set[str]]()
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Constant(str(text)) if re.fullmatch(r"__streamtable_\w+", text):
                    said.setdefault(text, set()).add(str(file.relative_to(PACKAGE)))
    assert [name for name, places in said.items() if len(places) > 1] == []
    assert said["__streamtable_weight"] == {"algebra/columns.py"}
