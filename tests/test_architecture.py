"""The ceilings of the house: they fall, or rise only with a new capability.

Lines are those of `wc -l` over the source at line length 100; modules are `.py` files without
`__init__`, whose code is imports and lazy names alone.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/stepscope"

LINES = 93500
MODULES = 287
MODULES_OF_A_FOLDER = {"formats": 24}
MODULES_OF_ANY_FOLDER = 14
LINES_OF_A_MODULE = 800
LINES_OF_A_SMALL_MODULE = 80
DATA_TYPES_PER_1000_LINES = 5.2
SHARED_FUNCTION_NAMES = 0.15
# Names that plugins and entry points prescribe.
PLUGIN_WORDS = {"read", "write", "render", "main"}

# Where a database that is not ours is opened: the judges' table tool.
FOREIGN_DATABASES = {"stepscope.sandbox.tables"}
SQL = re.compile(
    r"\s*(SELECT\s|INSERT\s+(OR|INTO)|UPDATE\s+\w+\s+SET|DELETE\s+FROM|CREATE\s+(TABLE|INDEX|TEMP)"
    r"|DROP\s+TABLE|ALTER\s+TABLE|PRAGMA\s|BEGIN\b|COMMIT\b|ROLLBACK\b|WITH\s+\w+\s+AS\s*\()"
)
SQL_PLACES = ("stepscope.runtime.database", "stepscope.store.", "stepscope.ledger.")
SQL_MODULES = {"stepscope.receive.journal"}
SQLITE_MODULES = {"stepscope.runtime.database", *FOREIGN_DATABASES}
# What is left of the time before this rule; it only shrinks.
SMALL_LEFT: set[str] = set()


@cache
def sources() -> dict[str, tuple[str, ast.Module]]:
    """Text and tree of every source file, by its dotted name; a package ends in `.__init__`."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(("stepscope", *path.relative_to(SOURCE).with_suffix("").parts))
        text = path.read_text("utf-8")
        found[name] = (text, ast.parse(text))
    return found


def modules() -> dict[str, tuple[str, ast.Module]]:
    return {name: one for name, one in sources().items() if not name.endswith(".__init__")}


def is_data_type(node: ast.ClassDef) -> bool:
    bases = {ast.unparse(base).split("[")[0].rpartition(".")[2] for base in node.bases}
    decorated = any("dataclass" in ast.unparse(one) for one in node.decorator_list)
    return decorated or bool(bases & {"Struct", "NamedTuple", "TypedDict"})


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imported(tree: ast.AST, names: set[str]) -> Iterator[str]:
    """Modules of ours that these statements import, packages as `.__init__`."""
    for node in ast.walk(tree):
        wanted: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            wanted = inside if all(one in names for one in inside) else [*inside, node.module]
        elif isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        for name in wanted:
            for one in (name, f"{name}.__init__"):
                if one in names:
                    yield one


def public_definitions(kind: type[ast.AST] | tuple[type[ast.AST], ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name, (_, tree) in sources().items():
        for node in tree.body:
            if isinstance(node, kind) and not getattr(node, "name").startswith("_"):  # noqa: B009
                found[getattr(node, "name")].append(name)  # noqa: B009
    return found


def test_the_source_has_no_more_lines_than_its_ceiling() -> None:
    assert sum(text.count("\n") for text, _ in sources().values()) <= LINES


def test_the_source_has_no_more_modules_than_its_ceiling() -> None:
    assert len(modules()) <= MODULES


def test_a_folder_is_a_table_of_contents() -> None:
    held = Counter(name.rpartition(".")[0] for name in modules())
    over = {
        folder: n
        for folder, n in held.items()
        if n > MODULES_OF_A_FOLDER.get(folder.partition(".")[2], MODULES_OF_ANY_FOLDER)
    }
    assert over == {}


def test_no_module_is_longer_than_one_can_read() -> None:
    lines = {name: text.count("\n") for name, (text, _) in modules().items()}
    assert {name: n for name, n in lines.items() if n > LINES_OF_A_MODULE} == {}


def test_a_small_module_has_two_customers() -> None:
    names = set(sources())
    customers: Counter[str] = Counter()
    for _, tree in sources().values():
        customers.update(set(imported(tree, names)))
    small = {
        name
        for name, (text, _) in modules().items()
        if text.count("\n") < LINES_OF_A_SMALL_MODULE and customers[name] < 2
    }
    assert small == SMALL_LEFT


def test_an_init_holds_imports_and_lazy_names_alone() -> None:
    allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr, ast.If)
    for name, (_, tree) in sources().items():
        if name.endswith(".__init__"):
            for node in tree.body:
                if isinstance(node, ast.FunctionDef):
                    assert node.name in {"__getattr__", "__dir__"}, name
                else:
                    assert isinstance(node, allowed), (name, ast.unparse(node)[:80])


def test_data_types_are_few() -> None:
    types = sum(
        isinstance(node, ast.ClassDef) and is_data_type(node)
        for _, tree in sources().values()
        for node in ast.walk(tree)
    )
    lines = sum(text.count("\n") for text, _ in sources().values())
    assert 1000 * types / lines <= DATA_TYPES_PER_1000_LINES


def test_no_two_public_classes_have_one_name() -> None:
    classes = public_definitions(ast.ClassDef)
    assert {name: where for name, where in classes.items() if len(where) > 1} == {}


def test_public_functions_rarely_share_a_name() -> None:
    functions = public_definitions((ast.FunctionDef, ast.AsyncFunctionDef))
    lazy = {"__getattr__", "__dir__"}
    counted = {n: w for n, w in functions.items() if n not in PLUGIN_WORDS | lazy}
    shared = sum(len(where) for where in counted.values() if len(where) > 1)
    assert shared / sum(map(len, counted.values())) <= SHARED_FUNCTION_NAMES


def test_modules_import_each_other_in_no_circle() -> None:
    names = set(sources())
    graph: dict[str, set[str]] = {}
    for name, (_, tree) in sources().items():
        graph[name] = set()
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                graph[name] |= set(imported(node, names)) - {name}
    # A module that imports nothing of what is left can be taken away; a circle never can.
    while free := [name for name, uses in graph.items() if not uses & graph.keys()]:
        for name in free:
            del graph[name]
    users = {use for uses in graph.values() for use in uses}
    assert sorted(graph.keys() & users) == []


def test_sqlite_is_imported_where_databases_are_opened() -> None:
    users = {
        name
        for name, (_, tree) in sources().items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Import) and any(a.name == "sqlite3" for a in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "sqlite3")
    }
    assert users == SQLITE_MODULES


def test_sql_stands_in_the_rooms_that_own_a_database() -> None:
    found = set()
    for name, (_, tree) in sources().items():
        if name.startswith(SQL_PLACES) or name in SQL_MODULES | FOREIGN_DATABASES:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if SQL.match(node.value) and not node.value.lstrip().startswith("With "):
                    found.add(name)
    assert found == set()


def facade_imports(text: str) -> Iterator[tuple[str, str]]:
    """What a text of ours imports from deeper than a room: module and line."""
    for found in re.finditer(r"^[ >.]*(?:from|import) (stepscope(?:\.\w+)+)", text, re.MULTILINE):
        if found[1].count(".") > 1:
            yield found[1], found[0].strip()


PUBLIC_TEXTS = sorted(
    path
    for pattern in ("README.md", "docs/**/*.md", "examples/**/*.py", "examples/**/*.md")
    for path in ROOT.glob(pattern)
    if "docs/design" not in path.as_posix()
)


def test_docs_and_examples_import_from_rooms_only() -> None:
    found = [
        (path.name, line)
        for path in PUBLIC_TEXTS
        for line in facade_imports(path.read_text("utf-8"))
    ]
    assert found == []


def test_documented_objects_are_those_of_rooms() -> None:
    found = [
        (path.name, line)
        for path in ROOT.glob("docs/**/*.md")
        for line in re.findall(r"^::: (\S+)", path.read_text("utf-8"), re.MULTILINE)
        if len(line.split(".")) > 3
    ]
    assert found == []


def test_entry_points_are_names_of_rooms() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    targets = [
        target
        for group in ("stepscope.formats", "stepscope.measures", "stepscope.models")
        for target in project["entry-points"][group].values()
    ]
    assert [one for one in targets if one.partition(":")[0].count(".") > 1] == []
