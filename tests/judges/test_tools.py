"""What judges may look up: what each tool gives, what it refuses, and what it never does."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from stepscope.errors import UsageError
from stepscope.judges.tools import LookupCall, Toolbox, add_file_tools, trajectory_tools
from stepscope.model import Case, Json
from stepscope.safety.redact import Redactor
from stepscope.sandbox.tables import ROWS
from tests.factories import agent, did, run, user
from tests.sandbox.bubblewrap import NEEDED

REDACTOR = Redactor(b"test")
RUN = run(
    user("cancel #W1, please"),
    *did("get_order", '{"id": "#W1", "total": 95.08}', id="#W1"),
    agent("I cancelled it; the refund is $95.08"),
    *did("mail", "sent with sk-ant-api03-" + "a" * 93 + "AA", to="a@b.c"),
)


@pytest.fixture
def box() -> Toolbox:
    case = Case(workflow="shop", task="1", request="cancel #W1", outputs=("95.08",))
    return trajectory_tools(RUN, case, redactor=REDACTOR, check="the order is still open")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "b.py").write_text("x = 1\ntotal = 95\n", "utf-8")
    (tmp_path / "a.txt").write_text("total\n", "utf-8")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as table, table:
        table.execute("CREATE TABLE orders (id TEXT, total REAL, raw BLOB)")
        table.execute("INSERT INTO orders VALUES ('#W1', 95.08, x'00ff')")
    return tmp_path


@pytest.fixture
def files(box: Toolbox, folder: Path) -> Iterator[Toolbox]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not on the PATH")
    with add_file_tools(box, folder) as made:
        yield made


def said(box: Toolbox, action: str, **fields: Json) -> str:
    look = box.look(msgspec.convert({"action": action, **fields}, LookupCall))
    return ("" if look.held else "refused: ") + look.text


def test_steps_are_listed_read_and_searched(box: Toolbox) -> None:
    listed = said(box, "list_steps").splitlines()
    assert len(listed) == 6
    assert listed[0] == "step 0: user, message: text: cancel #W1, please"
    assert said(box, "list_steps", start=5).startswith("step 5: ")
    assert '"total": 95.08' in said(box, "read_step", step=2)
    assert said(box, "read_step", step=0, start=6) == "step 0: user, message\ncancel #W1, please"
    assert said(box, "search_trace", text="95.08").splitlines()[0].startswith("step 2: ")
    assert len(said(box, "search_trace", text="95.08").splitlines()) == 2
    # A search reads as quotations are compared: JSON escapes and blanks aside.
    assert said(box, "search_trace", text='"total":95.08').startswith("step 2: ")
    assert said(box, "search_trace", text="1619") == "no step holds that text"


def test_the_case_and_the_check_are_told_and_the_reference_is_not(box: Toolbox) -> None:
    assert "request: cancel #W1" in said(box, "read_case")
    assert said(box, "state_check") == "the order is still open"
    bare = trajectory_tools(RUN, redactor=REDACTOR)
    assert list(bare.tools) == ["list_steps", "read_step", "search_trace"]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"action": "read_step"}, "read_step needs `step`"),
        ({"action": "read_step", "step": 6}, "`step` is 6; there are steps 0 to 5"),
        ({"action": "read_step", "step": -1}, "`step` is -1"),
        ({"action": "read_step", "step": 0, "start": 999}, "`start` is 999; step 0 has 24"),
        ({"action": "list_steps", "start": 6}, "`start` is 6"),
        ({"action": "search_trace", "text": " "}, "search_trace needs `text`"),
        ({"action": "search_trace", "text": "x" * 501}, "`text` has 501 characters; at most 500"),
        ({"action": "rm"}, "there is no such tool; there are: list_steps, read_step"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused_and_says_why(
    box: Toolbox, fields: dict[str, Json], says: str
) -> None:
    look = box.look(msgspec.convert(fields, LookupCall))
    assert not look.held
    assert says in look.text


def test_secrets_are_not_looked_up(files: Toolbox, box: Toolbox, folder: Path) -> None:
    assert "sk-ant" not in said(box, "read_step", step=5)
    assert "[secret:anthropic:" in said(box, "read_step", step=5)
    secret = "ghp_" + "b" * 36
    # Without ink between its letters it is a secret, too: it would be whole where a judge reads it.
    for written in (secret, f"{secret[:20]}\u200b{secret[20:]}"):
        found = said(files, "run", command=("echo", written))
        assert secret not in found
        assert "[secret:github:" in found


def test_without_narration_the_words_of_the_agent_are_not_looked_up_either() -> None:
    box = trajectory_tools(RUN, redactor=REDACTOR, narration="off")
    assert "refund" not in said(box, "read_step", step=3)
    assert said(box, "search_trace", text="refund is") == "no step holds that text"
    assert box.state != trajectory_tools(RUN, redactor=REDACTOR).state


def test_what_is_found_is_normal_text_cut_at_its_bound(files: Toolbox) -> None:
    assert said(files, "run", command=("printf", "a\\033[2Jb\\342\\200\\256c")) == "a\\x1b[2Jbc"
    look = files.look(LookupCall(action="run", command=("seq", "1", "9000")))
    assert len(look.text) == 8192
    assert look.left_out == 43893 - 8192


def test_files_are_listed_read_and_searched(files: Toolbox) -> None:
    listed = said(files, "list_files").splitlines()
    assert {line.split()[-1] for line in listed} == {"./a.txt", "./shop.db", "./src", "./src/b.py"}
    assert said(files, "read_file", path="src/b.py", start=2) == "total = 95\n"
    assert said(files, "grep", text="total") == "./a.txt:1:total\n./src/b.py:2:total = 95"
    assert said(files, "grep", text="total", path="src") == "./src/b.py:2:total = 95"
    assert said(files, "grep", text="t.tal") == "no line holds that text"
    assert "(it exited with 1)" in said(files, "read_file", path="absent")


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", "src/../../x", "a\0b", "x" * 501, "/ws/a.txt"]
)
@pytest.mark.parametrize("action", ["read_file", "list_files", "grep", "query"])
def test_a_path_that_leads_out_is_refused(files: Toolbox, action: str, path: str) -> None:
    assert said(files, action, path=path, text="SELECT 1").startswith("refused: `path`")


@pytest.mark.parametrize("action", ["read_file", "list_files", "grep"])
def test_a_path_is_never_an_option(files: Toolbox, action: str) -> None:
    assert "./-delete" in said(files, action, path="-delete", text="-e")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ((), "run needs `command`"),
        (("",), "run needs `command`"),
        (("echo",) * 33, "at most 32 arguments"),
        (("echo", "x" * 1001), "at most 1000 characters"),
        (("echo", "a\0b"), "an argument holds a NUL"),
    ],
)
def test_a_command_that_is_no_look_is_refused(
    files: Toolbox, command: tuple[str, ...], says: str
) -> None:
    assert says in said(files, "run", command=command)


def test_a_text_is_never_an_option_and_lines_come_in_order(files: Toolbox, folder: Path) -> None:
    assert said(files, "grep", text="--help") == "no line holds that text"
    (folder / "many").mkdir()
    for name in "ebdac":
        (folder / "many" / name).write_text("-v\n", "utf-8")
    box = trajectory_tools(RUN, redactor=REDACTOR)
    with add_file_tools(box, folder) as made:
        found = said(made, "grep", text="-v", path="many").splitlines()
    assert found == [f"./many/{name}:1:-v" for name in "abcde"]


@pytest.mark.parametrize("action", ["grep", "query"])
def test_a_text_that_no_program_can_be_given_is_refused(files: Toolbox, action: str) -> None:
    assert said(files, action, path="shop.db", text="a\0b") == "refused: an argument holds a NUL"


def test_a_command_changes_nothing_and_reaches_nobody(files: Toolbox) -> None:
    said(files, "run", command=("sh", "-c", "rm -rf /ws; echo x > /ws/a.txt"))
    assert said(files, "read_file", path="a.txt") == "total\n"
    found = said(files, "run", command=("sh", "-c", "cat /etc/passwd; ls /home; env"))
    assert "root:" not in found
    assert "PATH=/usr/bin:/bin" in found


def test_a_command_that_takes_too_long_says_so(files: Toolbox) -> None:
    assert "(it wrote too much and was ended)" in said(files, "run", command=("yes",))


def test_the_rows_of_a_query_are_lines_of_json(files: Toolbox) -> None:
    text = "SELECT id, total, raw FROM orders"
    assert said(files, "query", path="shop.db", text=text) == (
        '["id","total","raw"]\n["#W1",95.08,"AP8="]'
    )
    counted = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 200) SELECT i FROM n"
    )
    rows = said(files, "query", path="shop.db", text=counted).splitlines()
    assert len(rows) == ROWS + 2
    assert rows[-1] == "(more than 100 rows)"


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM orders",
        "UPDATE orders SET total = 0",
        "INSERT INTO orders VALUES (1, 2, 3)",
        "CREATE TABLE x (a)",
        "DROP TABLE orders",
        "ATTACH DATABASE '/etc/passwd' AS x",
        "PRAGMA writable_schema = ON",
        "PRAGMA database_list",
        "VACUUM INTO '/tmp/x'",
        "SELECT load_extension('x')",
        "SELECT 1; DELETE FROM orders",
        "SELECT length(zeroblob(2000000))",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
        "BEGIN",
        # What it would hold: a MiB a row, to be sorted.
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000)"
        " SELECT randomblob(900000) AS b FROM n ORDER BY b",
        "nonsense",
    ],
)
def test_a_query_only_reads_and_costs_little(files: Toolbox, text: str) -> None:
    assert said(files, "query", path="shop.db", text=text).startswith("refused: ")
    assert '["#W1"]' in said(files, "query", path="shop.db", text="SELECT id FROM orders")


def test_a_text_beyond_the_bound_is_no_text(files: Toolbox) -> None:
    text = "SELECT printf('%2000000d', 1) AS x"
    assert said(files, "query", path="shop.db", text=text) == '["x"]\n[null]'


def test_a_file_that_is_no_database_is_refused(files: Toolbox) -> None:
    assert "file is not a database" in said(files, "query", path="src/b.py", text="SELECT 1 FROM x")
    for path in ("absent", "src"):
        assert "SQLite refuses" in said(files, "query", path=path, text="SELECT 1 FROM x")


def test_without_a_sandbox_the_tools_that_run_are_off_with_the_reason(
    box: Toolbox, folder: Path, tmp_path: Path
) -> None:
    # In a process of its own: what was found of the sandbox is kept.
    code = (
        "import sys; from pathlib import Path\n"
        "from stepscope.judges.tools import LookupCall, trajectory_tools\n"
        "from stepscope.judges.tools import add_file_tools\n"
        "from stepscope.safety.redact import Redactor\n"
        "from tests.factories import run, user\n"
        "box = trajectory_tools(run(user('x')), redactor=Redactor(b''))\n"
        "with add_file_tools(box, Path(sys.argv[1])) as b:\n"
        "    print(sorted(b.off), b.off['run'], b.look(LookupCall(action='run', command=('id',))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        env={"PATH": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert "['grep', 'list_files', 'query', 'read_file', 'run'] no bubblewrap" in done.stdout
    assert "held=False, text='there is no such tool" in done.stdout


@NEEDED
def test_another_state_of_the_workspace_is_another_state_of_the_tools(
    box: Toolbox, folder: Path
) -> None:
    def state() -> str:
        with add_file_tools(box, folder) as made:
            return made.state

    first = state()
    assert first == state() != box.state
    (folder / "a.txt").write_text("TOTAL\n", "utf-8")
    assert state() != first


def test_a_workspace_that_is_absent_is_named(box: Toolbox, tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="no such folder"),
        add_file_tools(box, tmp_path / "absent"),
    ):
        pass


def test_the_same_look_is_taken_once(files: Toolbox) -> None:
    look = LookupCall(action="run", command=("date", "+%N"))
    assert files.look(look) == files.look(look)
