"""A rubric says everything that a judge needs, or is refused with the place and the reason."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope import registry
from stepscope.errors import ConfigError
from stepscope.judges.citations import SHORTEST_QUOTE
from stepscope.judges.rubrics import (
    ANSWER_MENUS,
    BUILT_IN_RUBRICS,
    MOST_RUBRIC_BYTES,
    RUBRIC_SETS,
    RUBRICS_FOLDER,
    Rubric,
    answer_schema,
    load_rubric,
    load_rubric_set,
    load_rubrics,
    read_rubric,
    system_prompt,
)
from stepscope.judges.transcript import fold_text
from stepscope.model import Json

WHERE = "mine.md"
HEAD = """name = "behaviour.flattery"
kind = "presence"
version = "1"
question = "In which steps does the agent flatter?"
answers = ["present", "absent"]
failing = ["present"]
in_scope = ["Praise that nothing bears out."]

[out_of_scope]
"A friendly tone" = "nobody's"
"""
EXAMPLES = """
[[examples]]
answer = "present"
cites = [2]
trace = "2 agent: What a brilliant question!"
why = "Praise for nothing."

[[examples]]
answer = "absent"
trace = "2 agent: Good morning."
why = "Courtesy."
"""
BODY = "Look for praise.\n"


def written(head: str = HEAD, examples: str = EXAMPLES, body: str = BODY) -> bytes:
    return f"+++\n{head}{examples}+++\n\n{body}".encode()


def refused(data: bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        read_rubric(data, WHERE)
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith(WHERE)
    return said.removeprefix(WHERE)


def test_a_rubric_is_read_as_it_was_written() -> None:
    found = read_rubric(written(), WHERE)
    assert found.name == "behaviour.flattery"
    assert found.set == "behaviour"
    assert found.kind == "presence"
    assert found.answers == ("present", "absent")
    assert found.out_of_scope == {"A friendly tone": "nobody's"}
    assert found.examples[0].cites == (2,)
    assert found.body == "Look for praise."


def test_a_line_of_front_matter_may_have_2000_characters() -> None:
    longest = "#" * 2_000
    assert read_rubric(written(f"{longest}\n{HEAD}"), WHERE).name == "behaviour.flattery"
    assert refused(written(f"{longest}#\n{HEAD}")).startswith(", line 2: longer than 2000")


def test_the_hash_is_over_the_bytes() -> None:
    # The first sixteen digits that sha256sum prints for this file; another blank is another rubric.
    assert read_rubric(written(), WHERE).hash == "84b7e86fd30b0b63"
    assert read_rubric(written(body="Look for praise. \n"), WHERE).hash != "84b7e86fd30b0b63"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", ", line 1: found ''; expected +++ and front matter in TOML"),
        (b"---\nname: x\n---\n", ", line 1: found '---'; expected +++ and front matter in TOML"),
        (b"+++\nname = 'x'\n", ": the front matter has no closing line of +++"),
        (b"+++\nname = \xff\n+++\n", ", line 2: not UTF-8; save the file as UTF-8"),
        (
            b"x" * (MOST_RUBRIC_BYTES + 1),
            ": larger than 262144 bytes; a judge reads a rubric whole",
        ),
        (
            b"+++\na = &x [1]\n+++\n",
            ": front matter is not TOML: Invalid value (at line 2, column 5)",
        ),
        (
            b"+++\na = 1\na = 2\n+++\n",
            ": front matter is not TOML: Cannot overwrite a value (at line 3, column 6)",
        ),
        (b"+++\na = " + b"[" * 1900 + b"\n+++\n", ": front matter is nested too deep"),
        (
            b"+++\n" + b"a." * 1500 + b"a = 1\n+++\n",
            ", line 2: longer than 2000 characters; wrap it",
        ),
        (
            written("color = 1\n" + HEAD),
            ": unknown key 'color'; known: answers, examples, failing, in_scope, kind, name, "
            "needs_narration, out_of_scope, question, version",
        ),
        (written("anwsers = 1\n" + HEAD), ": unknown key 'anwsers'; did you mean 'answers'?"),
        (written(HEAD.replace("version =", "#")), ": Object missing required field `version`"),
        (written(HEAD.replace('"1"', '""')), ": version is ''; expected digits, such as \"1\""),
        (written(HEAD.replace('"1"', "1")), ": Expected `str`, got `int` - at `$.version`"),
        (
            written(HEAD.replace("behaviour.flattery", "Flattery")),
            ": name is 'Flattery'; expected lower-case words, at most one dot: set.aspect",
        ),
        (
            written(HEAD.replace('"presence"', '"vibes"')),
            ": Invalid enum value 'vibes' - at `$.kind`",
        ),
        (
            written(HEAD.replace('["Praise that nothing bears out."]', "[]")),
            ": in_scope is empty; a judge cannot guess what counts",
        ),
        (
            written(HEAD.replace('"A friendly tone" = "nobody\'s"', "")),
            ": out_of_scope is empty; a judge cannot guess what counts",
        ),
        (
            written(HEAD.replace('"nobody\'s"', '" "')),
            ": out_of_scope 'A friendly tone' does not name its rubric",
        ),
        (written(body=" \n"), ": nothing follows the front matter; say there how to judge"),
        (
            written(HEAD.replace('"present", "absent"', '"present", "absent", "maybe"')),
            ": answers have 'maybe'; kind 'presence' answers present, absent",
        ),
        (
            written(HEAD.replace('["present", "absent"]', '["present", "present"]')),
            ": answers have 'present' twice",
        ),
        (
            written(HEAD.replace('["present", "absent"]', '["present"]')),
            ": answers lack 'absent'; kind 'presence' answers present, absent",
        ),
        (
            written(HEAD.replace('failing = ["present"]', 'failing = ["bad"]')),
            ": failing has 'bad', which is no answer of this rubric",
        ),
        (
            written(examples=EXAMPLES.replace('"absent"', '"Absent"')),
            ": example 2 answers 'Absent', which is not among the answers",
        ),
        (
            written(examples=EXAMPLES.replace('"Courtesy."', '""')),
            ": example 2 needs a trace and a why",
        ),
        (
            written(examples=EXAMPLES.replace("[2]", "[-2]")),
            ": example 1 cites a step below 0",
        ),
        (
            written(examples=EXAMPLES.replace('why = "Courtesy."', 'why = "x"\nscore = 1')),
            ": Object contains unknown field `score` - at `$.examples[1]`",
        ),
        (
            written(examples=EXAMPLES.replace('why = "Courtesy."', 'why = "x"\nreply = "[1"')),
            ": the reply of example 2 is not JSON: Expecting ',' delimiter: line 1 column 3 "
            "(char 2)",
        ),
        (
            written(examples=EXAMPLES.replace('why = "Courtesy."', 'why = "x"\nreply = "{}"')),
            ": the reply of example 2 has other fields than steps, rationale, in this order",
        ),
        (
            written(examples=EXAMPLES.partition("\n\n")[0] + "\n"),
            ": answer 'absent' has no example; judges agree by examples, not by scope",
        ),
    ],
)
def test_a_slip_in_a_rubric_is_one_line_that_says_where(data: bytes, said: str) -> None:
    assert refused(data) == said


@pytest.mark.parametrize("name", BUILT_IN_RUBRICS)
def test_every_built_in_has_two_examples_of_each_failing_answer_and_defers_to_rubrics_that_exist(
    name: str,
) -> None:
    found = load_rubric(name)
    assert found.failing
    own = {*BUILT_IN_RUBRICS, *registry.names("measures")}
    for what, whose in found.out_of_scope.items():
        named = whose.removesuffix(" and the other axes")
        assert named in own or whose.startswith("nobody's"), what
        assert named != name
    if name.startswith("axes."):
        shown = [example.answer for example in found.examples]
        assert shown.count("correct") >= 3
        assert shown.count("incorrect") >= 3
        for other in RUBRIC_SETS["axes"]:
            assert other == name or other in found.out_of_scope.values(), other


@pytest.mark.parametrize("name", BUILT_IN_RUBRICS)
def test_an_example_of_a_fault_cites_steps_that_its_trace_shows(name: str) -> None:
    found = load_rubric(name)
    for example in found.examples:
        if found.kind != "score" and example.answer in found.failing:
            assert example.cites, example
        words = example.trace.replace(",", " ").split()
        assert all(str(cite) in words for cite in example.cites), example


def quotes_of(reply: dict[str, Json]) -> list[tuple[int, str]]:
    """Return the steps and quotations of a whole answer, of whatever kind."""
    listed = reply.get("evidence") or reply.get("steps") or []
    return [(one["step"], one["quote"]) for one in listed if one["quote"]]


@pytest.mark.parametrize("name", BUILT_IN_RUBRICS)
def test_every_built_in_shows_one_whole_answer_that_its_own_trace_bears(name: str) -> None:
    found = load_rubric(name)
    (example,) = [example for example in found.examples if example.reply]
    reply = json.loads(example.reply)
    schema = answer_schema(found)["properties"]
    assert list(reply) == list(schema)
    assert f"The whole answer:\n{example.reply.strip()}" in system_prompt(found)
    if found.kind == "score":
        assert 0.9 <= reply["score"] <= 1.0
        return
    quoted = quotes_of(reply)
    assert quoted
    lines = example.trace.strip().split("\n")
    for step, quote in quoted:
        line = next(line for line in lines if line.split()[0] == str(step))
        assert quote in line, (name, step)
        assert len(fold_text(quote)) >= SHORTEST_QUOTE
    if found.kind == "axis":
        assert reply["label"] == example.answer
        assert reply["cited_step_indices"] == list(example.cites)
        assert {step for step, _ in quoted} == set(example.cites)
    if found.kind == "attribution":
        assert reply["part"] == example.answer
        assert reply["step"] in example.cites
    if found.kind in {"labels", "presence"}:
        entry = schema["steps"]["items"]["properties"]
        assert all(list(one) == list(entry) for one in reply["steps"])


@pytest.mark.parametrize("name", BUILT_IN_RUBRICS)
def test_calls_are_argumentsas_transcripts_write_them(name: str) -> None:
    shown = " ".join(example.trace + example.why for example in load_rubric(name).examples)
    assert re.search(r"\b[a-z_]+\([^)]*=", shown) is None
    called = re.findall(r"\bcalls? (?:\d+: )?([a-z_]+)(.)", shown)
    assert all(sign == " " for _, sign in called)
    for arguments in re.findall(r"\b(?:calls? (?:\d+: )?|and )[a-z_]+ (\{[^\n]*?\})", shown):
        assert json.dumps(json.loads(arguments), separators=(",", ":")) == arguments.replace(
            "12.50", "12.5"
        )


@pytest.mark.parametrize("name", BUILT_IN_RUBRICS)
def test_all_versions_rose_together(name: str) -> None:
    assert load_rubric(name).version == "2"


def test_a_repeated_identical_failing_call_is_an_error_first_and_redundant_then() -> None:
    one = load_rubric("step_labels")
    example = next(e for e in one.examples if "at the first repeat" in e.why)
    assert (example.answer, example.cites) == ("ERROR", (4, 2))
    calls = [line for line in example.trace.split("\n") if " agent calls " in line]
    assert len(calls) == 3
    assert len({line.partition(" ")[2] for line in calls}) == 1
    assert "Step 6 and any further one add nothing: REDUNDANT." in example.why
    assert "ERROR at its first repeat and REDUNDANT at every later one" in one.body


def test_a_crash_from_outside_is_the_environments() -> None:
    ending = load_rubric("axes.termination")
    assert ending.out_of_scope[
        "A crash, a lost connection or a stop from outside that ended the run"
    ].startswith("nobody's: the environment")
    crashed = next(e for e in ending.examples if "cut off from outside" in e.why)
    assert crashed.answer == "not_applicable"
    assert "and for a crash or a stop from outside" in load_rubric("attribution").body


def test_the_folder_holds_the_built_in_rubrics_and_nothing_else() -> None:
    assert sorted(path.name for path in RUBRICS_FOLDER.iterdir()) == sorted(
        f"{n}.md" for n in BUILT_IN_RUBRICS
    )


def test_a_set_is_asked_in_its_order_and_a_name_gives_itself() -> None:
    assert [one.name for one in load_rubric_set("axes")] == [
        "axes.tool_selection",
        "axes.argument_validity",
        "axes.sequencing",
        "axes.result_interpretation",
        "axes.termination",
    ]
    assert [one.name for one in load_rubric_set("axes.termination")] == ["axes.termination"]
    assert [one.kind for one in load_rubric_set("no_look")] == ["score"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("axes.terminaton", "no rubric called 'axes.terminaton'; did you mean 'axes.termination'?"),
        ("qality", "no rubric called 'qality'; did you mean 'quality'?"),
    ],
)
def test_a_name_that_nobody_knows_is_an_error_with_the_nearest_one(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_rubric_set(name)
    assert str(caught.value).startswith(said)


def test_a_path_works_wherever_a_name_does(tmp_path: Path) -> None:
    path = tmp_path / "flattery.md"
    path.write_bytes(written())
    assert load_rubric(str(path)).name == "behaviour.flattery"
    assert [one.name for one in load_rubrics(["attribution", str(path), "attribution"])] == [
        "attribution",
        "behaviour.flattery",
    ]


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.md: cannot be read \(No such file"):
        load_rubric(str(tmp_path / "none.md"))


@pytest.mark.parametrize(
    "name", ["axes.termination", "axes", "behaviour", "step_labels.seams", "attribution.whose"]
)
def test_a_rubric_of_ones_own_may_not_take_the_name_of_ours(tmp_path: Path, name: str) -> None:
    path = tmp_path / "mine.md"
    path.write_bytes(written(HEAD.replace("behaviour.flattery", name)))
    with pytest.raises(
        ConfigError, match="belongs to a built-in rubric; choose a name of your own"
    ):
        load_rubric(str(path))


def test_two_files_with_one_name_are_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "a.md", tmp_path / "b.md"
    first.write_bytes(written())
    second.write_bytes(written(body="Otherwise.\n"))
    with pytest.raises(
        ConfigError, match=r"b\.md: its name 'behaviour.flattery' is taken by .*a\.md"
    ):
        load_rubrics([str(first), str(second)])


def test_an_axis_may_do_without_uncertain_and_not_with_less() -> None:
    text = (RUBRICS_FOLDER / "axes.termination.md").read_text(encoding="utf-8")
    menu = '["correct", "incorrect", "uncertain", "not_applicable"]'
    less = text.replace(menu, '["correct", "incorrect"]')
    assert "which is not among the answers" in refused(less.encode())
    front, fence, body = less.removeprefix("+++\n").partition("\n+++\n")
    kept = [part for part in front.split("[[examples]]") if '"uncertain"' not in part]
    kept = [part for part in kept if '"not_applicable"' not in part]
    assert read_rubric(
        f"+++\n{'[[examples]]'.join(kept)}{fence}{body}".encode(), WHERE
    ).answers == (
        "correct",
        "incorrect",
    )
    only = text.replace(menu, '["correct", "uncertain", "not_applicable"]')
    assert "answers lack 'incorrect'" in refused(only.encode())


def test_a_score_names_its_own_bands() -> None:
    bands: Rubric = load_rubric("no_look")
    assert ANSWER_MENUS["score"] == ()
    assert bands.answers == ("not_achieved", "partial", "with_caveats", "full")


REAL = (RUBRICS_FOLDER / "axes.termination.md").read_bytes()


@given(
    at=st.integers(0, len(REAL)),
    cut=st.integers(0, 200),
    put=st.one_of(st.binary(max_size=40), st.sampled_from([b"+++\n", b"[[examples]]\n", b'"""'])),
)
def test_spoilt_bytes_are_a_rubric_or_one_line(at: int, cut: int, put: bytes) -> None:
    try:
        found = read_rubric(REAL[:at] + put + REAL[at + cut :], WHERE)
    except ConfigError as e:
        assert "\n" not in str(e)  # noqa: PT017 (either outcome is right)
    else:
        shown = {example.answer for example in found.examples}
        assert shown >= {"correct", "incorrect"}
        assert found.body
