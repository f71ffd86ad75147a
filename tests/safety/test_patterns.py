"""Patterns of users and of traces: linear time, typed errors, a rewrite for what RE2 lacks."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from stepscope.errors import ConfigError
from stepscope.models import dialect
from stepscope.safety.limits import compile_pattern
from stepscope.settings import load_settings

# Each hangs `re` on 41 characters, or on 60.
HANGING = ["(a+)+$", "(a|aa)+$", "(.*a){20}$", "a?" * 60 + "a" * 60, "(x+x+)+y", "(a|a?)+$"]
RULE = '[[policy]]\nname = "r"\n'


@pytest.mark.parametrize("pattern", HANGING)
def test_no_pattern_hangs(pattern: str) -> None:
    start = time.process_time()
    found = compile_pattern(pattern, "rule")
    for text in ("a" * 40 + "!", "x" * 60, "a" * 500_000 + "!"):
        found.search(text)
    read = dialect._pattern(pattern)
    assert read is None or read.search("a" * 40 + "!") is None
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("pattern", "advice"),
    [
        ("(?=a)b", "no look-around"),
        ("(?<!a)b", "no look-around"),
        (r"(a)\1", "no back-references"),
        ("(?P<n>a)(?P=n)", "no back-references"),
        ("a++b", "never backtracks"),
        ("(?>a)b", "never backtracks"),
        (r"a\Z", r"write \\z"),
        ("(", "see the syntax of RE2"),
        ("a{2000}", "see the syntax of RE2"),
        ("a{1000000000}", "repeats 1000000000 times; at most 1,000"),
        ("((a{30}){30})", "at most 500; repeat less"),
        ("\ud800", "see the syntax of RE2"),
    ],
)
def test_what_the_engine_lacks_is_a_settings_error_with_a_rewrite(
    tmp_path: Path, pattern: str, advice: str
) -> None:
    with pytest.raises(ConfigError, match=advice):
        compile_pattern(pattern, "rule")
    if pattern.isprintable():
        table = RULE + f"forbid = 'refund'\nwhere = {{ amount = '{pattern}' }}\n"
        (tmp_path / "stepscope.toml").write_text(table)
        with pytest.raises(ConfigError, match=rf"stepscope.toml: policy rule 'r'.*{advice}"):
            load_settings(tmp_path)


@pytest.mark.parametrize(
    "rest",
    ["", 'before = "a"', 'require = "a"', 'where = { a = "b" }', 'forbid = "a"\nrequire = "b"'],
)
def test_a_rule_that_says_nothing_is_an_error_when_settings_load(tmp_path: Path, rest: str) -> None:
    (tmp_path / "stepscope.toml").write_text(RULE + rest)
    with pytest.raises(
        ConfigError, match="policy rule 'r' needs a name and `forbid`, or `before` together"
    ):
        load_settings(tmp_path)


def test_the_engine_is_loaded_when_somebody_gives_a_pattern() -> None:
    code = "import sys, stepscope.settings, stepscope.measures.conduct; print('re2' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
