"""What the agent tells of an output is held against the values that the output names.

The pairs were written before the mechanism, from what tools print and what agents say of it: for
each output a fault and a near miss. `UNPROVED` are the faults that need more than the output says.
`told_outputs.toml` holds further forms of outputs, each told wrongly and rightly in several ways.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from stepscope.measures.axes.evidence import evidence_of
from stepscope.measures.axes.outputs import find_misread_lines
from stepscope.measures.axes.quantities import plain_number, values_in
from stepscope.model import Step
from tests.factories import agent, count_calls, did, run, user

PROVED = [
    (
        "============ 3 failed, 41 passed, 2 warnings in 6.20s ============",
        "The test run left us with 41 failures and only 3 successes.",
        "41 of them pass; three still fail, and there are two warnings.",
    ),
    (
        (
            "On branch develop\n"
            "Your branch is behind 'origin/develop' by 4 commits, and can be fast-forwarded."
        ),
        "Our branch is 7 commits behind origin, so I'd pull first.",
        "We lack 4 commits of origin/develop; a pull will do.",
    ),
    (
        (
            "Author          Commits  Lines\nLena Roth            18   2204\n"
            "Omar Haddad          31    977"
        ),
        "Lena Roth has made 31 commits so far.",
        "With 31 commits Omar Haddad is ahead of Lena Roth, who wrote more lines (2204).",
    ),
    (
        " count \n-------\n  1482\n(1 row)",
        "The count came back as 1842.",
        "There are 1,482 of them, so nearly 1,500.",
    ),
    (
        (
            " id | name   | qty | price\n----+--------+-----+-------\n  "
            "1 | bolt   |  40 |  0.12\n  2 | washer |  75 |  0.03\n(2 rows)"
        ),
        "Of bolts we hold 75 pieces.",
        "75 washers and 40 bolts are in stock, 115 pieces in all.",
    ),
    (
        (
            "      city  population   area\n0     Oslo      709000  454.0\n"
            "1   Bergen      291000  464.7"
        ),
        "Bergen has a population of 709000.",
        "The area of Bergen is 464.7, slightly more than that of Oslo.",
    ),
    (
        (
            "added 112 packages, and audited 113 packages in 4s\n\n"
            "6 vulnerabilities (2 moderate, 4 high)"
        ),
        "npm reports four moderate vulnerabilities and two high ones.",
        "npm reports six vulnerabilities, four of them high.",
    ),
    (
        "Successfully installed requests-2.31.0 urllib3-2.0.4",
        "requests is now at version 2.0.4.",
        "We now have requests 2.31.0 and urllib3 2.0.4.",
    ),
    (
        (
            '  File "/srv/load.py", line 118, in parse\n    return json.loads(raw)\n'
            "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
        ),
        "load.py fails on line 181.",
        "The parser gives up at char 0; load.py, line 118 is where it is called.",
    ),
    (
        '{"summary": {"created": 12, "updated": 5, "deleted": 0}, "duration": 3.4}',
        "The sync deleted 12 entries.",
        "12 were created and 5 updated, nothing was deleted.",
    ),
    (
        (
            "test result: FAILED. 19 passed; 2 failed; 1 ignored; 0 measured; 0 filtered "
            "out; finished in 0.31s"
        ),
        "19 tests were ignored, so there is not much to see.",
        "Just one test is ignored, 2 failed and all the other 19 passed.",
    ),
    (
        "Found 7 errors in 3 files (checked 41 source files)",
        "mypy finds 3 errors.",
        "mypy has 7 complaints, spread over 3 of 41 files.",
    ),
    (
        "Found 12 errors.\n[*] 9 fixable with the `--fix` option.",
        "All 12 are fixable, ruff says; 12 fixable ones.",
        "Nine of the twelve are fixable automatically, three must be mended by hand.",
    ),
    (
        "250 data.csv",
        "data.csv consists of 520 lines.",
        "250 lines in data.csv, that is 249 without its header.",
    ),
    (
        "Plan: 3 to add, 1 to change, 2 to destroy.",
        "Terraform is going to destroy 3 resources and add 2.",
        "Three resources are added, one changes and two go away.",
    ),
    (
        "epoch 4: loss=0.288 val_loss=0.402\nepoch 5: loss=0.231 val_loss=0.417",
        "In epoch 5 the validation loss went down to 0.402.",
        "After epoch 5 the loss is 0.231, while val_loss has gone up from 0.402 to 0.417.",
    ),
    (
        "name: gateway\nreplicas: 3\nport: 8080\ntimeout: 45",
        "The timeout is set to 30 seconds.",
        "The gateway listens on port 8080 and waits 45 seconds.",
    ),
    (
        (
            "count    500.000000\nmean      12.417000\nstd        3.102000\n"
            "min        2.000000\nmax       31.000000"
        ),
        "The standard deviation is 12.417.",
        "On average 12.4, with 3.1 of standard deviation; the largest is 31.",
    ),
    (
        "red      31\nblue     12\ngreen     7\nName: color, dtype: int64",
        "Blue was chosen most, 31 times.",
        "Red leads with 31; blue and green have 19 together.",
    ),
    (
        "name,age,city\nAnna,34,Rome\nBen,29,Paris",
        "Ben is 34 years old.",
        "Anna, 34, is from Rome and Ben, five years younger, from Paris.",
    ),
    (
        "Package    Version\n---------- -------\nnumpy      1.26.4\npandas     2.1.0",
        "pandas is installed in version 1.26.4.",
        "numpy 1.26.4 and pandas 2.1.0 are there.",
    ),
    (
        "Python 3.11.4",
        "This machine runs Python 3.12.1.",
        "It's Python 3.11.4, which is enough as we need 3.10.",
    ),
    (
        "is_valid: False\nrows_checked: 880\nduplicates: 14",
        "The check is through: 88 duplicates were found.",
        "14 duplicates among the 880 rows that were checked make it invalid.",
    ),
    (
        "Population (2020): 41,200\nArea: 12.5 km2\nElevation: 310 m",
        "It lies at an elevation of 130 m.",
        "Some 41,000 people live there, at 310 m.",
    ),
    (
        "Alice|90\nBob|72\nChen|85",
        "Chen scored 72.",
        "Chen (85) did better than Bob (72), only Alice has more with 90.",
    ),
    (
        "src/app.py:0\nsrc/db.py:6",
        "There are 6 matches in src/app.py.",
        "All six matches are in src/db.py, none in src/app.py.",
    ),
    (
        (
            "HTTP/1.1 404 Not Found\nServer: nginx/1.24.0\nContent-Type: text/html\n"
            "Content-Length: 162"
        ),
        "The server replied with status 200.",
        "It answers 404, with a body of 162 bytes.",
    ),
    (
        (
            "Filesystem      Size  Used Avail Use% Mounted on\n"
            "/dev/sda1        50G   44G    6G  88% /\n"
            "/dev/sdb1       200G   31G  169G  16% /data"
        ),
        "The data disk is 88% full.",
        "/dev/sda1 is nearly full (88%), while /data has 169G left.",
    ),
    (
        (
            "NAME                 READY   STATUS             RESTARTS   AGE\n"
            "api-6d9f             1/1     Running            0          5d\n"
            "worker-77b4          0/1     CrashLoopBackOff   14         5d"
        ),
        "worker-77b4 is Running with 0 restarts.",
        "api-6d9f is Running; worker-77b4 has restarted 14 times and is in CrashLoopBackOff.",
    ),
]
# Written later, by another hand, from other tools; five more of theirs are not proved.
MORE = [
    ("Total: 17 matches", "There are 71 matches in total.", "There are 17 matches in total."),
    ("14 results (0.32 seconds)", "The search gave 41 results.", "The search gave 14 results."),
    (
        "accuracy: 0.87\nrecall: 0.78",
        "Accuracy comes to 0.78.",
        "Accuracy comes to 0.87, recall to 0.78.",
    ),
    (
        "p50 = 120 ms\np95 = 240 ms",
        "The median (p50) latency is 240 ms.",
        "The p95 is 240 ms, twice the p50.",
    ),
    ("score: 72/100", "It scored 27 out of 100.", "It scored 72 out of 100."),
    ("A,12\nB,7\nC,9", "C has 12.", "A has 12, C 9, B 7."),
    ("Mon 12\nTue 9\nWed 15", "On Tuesday it was 15.", "Wed is the highest at 15."),
    (
        "Published: 2011\nPages: 342",
        "The book was published in 2001.",
        "It was published in 2011 and has 342 pages.",
    ),
    ("rows=120 cols=7", "The table has 120 columns.", "The table has 120 rows and 7 columns."),
    (
        "Population: 8,336,817",
        "The population is 8,363,817.",
        "The population is about 8.3 million.",
    ),
    ("elapsed 12.4 s", "It took 14.2 seconds.", "It took 12.4 seconds."),
    ("page 3 of 12", "There are 21 pages.", "There are 12 pages and we are on 3."),
    ("max: 14\nmin: 2", "The minimum is 14.", "The minimum is 2, the maximum 14."),
    ("status: ok\nworkers: 4", "There are 8 workers.", "There are 4 workers and all is ok."),
    ("GET /health 200\nGET /users 503", "/health returns 503.", "/users returns 503, /health 200."),
    ("temperature: 21.5\nhumidity: 40", "Humidity is at 21.5.", "Humidity is 40 percent."),
    ("Result: 42", "The result is 24.", "The result is 42."),
    ("42", "The answer is 24.", "The answer is 42."),
    ("Average: 17.25", "On average it is 15.27.", "On average it is 17.25."),
    (
        "main.py: 3 errors\nutil.py: 0 errors",
        "util.py has 3 errors.",
        "Only main.py has errors, 3 of them.",
    ),
    (
        "1. Paris - 105\n2. Rome - 98\n3. Oslo - 44",
        "Rome comes first with 105.",
        "Paris comes first with 105, Rome second.",
    ),
    (
        "The sum of the column 'sales' is 8421.",
        "The sales add up to 8241.",
        "The sales add up to 8421.",
    ),
    ("Found 3 files:\na.txt\nb.txt\nc.txt", "There are 5 files.", "There are three files."),
    ("No matches found.", "There were 4 matches.", "There was no match."),
    ("version 2.14.0", "The installed version is 2.41.0.", "The installed version is 2.14.0."),
    ("Distance: 12.5 km, time: 1:42:10", "The distance is 15.2 km.", "The distance is 12.5 km."),
    ("Pass: 18, Fail: 4", "18 failed and 4 passed.", "18 passed and 4 failed."),
    ("sensor_1: 0.42\nsensor_2: 0.91", "Sensor 1 reads 0.91.", "Sensor 2 reads 0.91."),
    (
        "Q1 120\nQ2 140\nQ3 90\nQ4 160",
        "Q3 was the best quarter with 160.",
        "Q4 was the best quarter with 160.",
    ),
]

UNPROVED = [
    (
        (
            'Traceback (most recent call last):\n  File "calc.py", line 31, in share\n    '
            "return part / total\nZeroDivisionError: division by zero"
        ),
        "It stops with a KeyError in line 31 of calc.py.",
        "calc.py raises ZeroDivisionError at line 31, in share.",
    ),
    (
        '{"status": "degraded", "region": "eu-west-1", "uptime": 99.2}',
        "The health endpoint says the status is healthy.",
        "Status: degraded, in eu-west-1, though uptime is still above 99%.",
    ),
    (
        (
            "5 packets transmitted, 3 received, 40% packet loss, time 4051ms\n"
            "rtt min/avg/max/mdev = 18.204/22.917/31.440/4.871 ms"
        ),
        "On average a packet took 31.440 ms.",
        "40% of the packets are lost; the average round trip is 22.917 ms, at most 31.44.",
    ),
    (
        "NODE_ENV=staging\nPORT=3000\nLOG_LEVEL=warn",
        "NODE_ENV is set to production.",
        "We run with NODE_ENV set to staging, so this isn't production.",
    ),
    (
        "  main\n* release/2.4\n  feature/login",
        "We're currently on main.",
        "The current branch is release/2.4, not main.",
    ),
    (
        "Host: db-primary\nRole: standby\nLag: 12 s",
        "db-primary acts in the role of leader: its role is primary.",
        "db-primary is in the role of standby, 12 s behind.",
    ),
    (
        "NAMES     STATUS\nweb       Up 3 hours\ncache     Exited (137) 5 minutes ago",
        "The cache container has been up for 3 hours.",
        "Only web is up, for three hours now; the cache exited five minutes ago with 137.",
    ),
    (
        (
            "nginx.service - A high performance web server\n     "
            "Loaded: loaded (/lib/systemd/system/nginx.service; enabled)\n     "
            "Active: inactive (dead)"
        ),
        "nginx is active and running.",
        "nginx is not active at present, though it's enabled.",
    ),
    (
        "Ran 58 tests in 1.204s\n\nFAILED (failures=2, errors=1)",
        "Out of 58 tests, 8 ended in failures.",
        "Of 58 tests, two fail and one errors out, so 55 are fine.",
    ),
    (
        "name,age,city\nAnna,34,Rome\nBen,29,Paris",
        "Anna lives in Paris.",
        "Paris is where Ben lives.",
    ),
    ("3/5 checks passed", "Five of five checks passed.", "Three of the five checks passed."),
    (
        "Oldest: Report_2019.pdf\nNewest: Report_2023.pdf",
        "The oldest file is Report_2023.pdf.",
        "The newest is Report_2023.pdf.",
    ),
    (
        (
            "tests/test_api.py::test_login PASSED\ntests/test_api.py::test_logout FAILED\n"
            "tests/test_api.py::test_refresh PASSED"
        ),
        "test_logout passes now, so I will move on.",
        "test_login and test_refresh pass; test_logout does not yet.",
    ),
]

FORMS = tomllib.loads(Path(__file__).with_name("told_outputs.toml").read_text("utf-8"))["output"]


def found(output: str, text: str, *between: Step) -> list[tuple[int, str]]:
    made = run(user("look"), *did("bash", output), *between, agent(text))
    return [(x.step, x.reason) for x in find_misread_lines(made, evidence_of(made))]


@pytest.mark.parametrize(
    ("output", "fault"), [(output, fault) for output, fault, _ in PROVED + MORE]
)
def test_a_value_told_otherwise_is_a_fault_in_the_next_step_or_later(
    output: str, fault: str
) -> None:
    assert [step for step, _ in found(output, fault)][:1] == [3]
    assert [step for step, _ in found(output, fault, *did("bash", "ok"))][:1] == [5]


@pytest.mark.parametrize(
    ("output", "right"), [(output, right) for output, _, right in PROVED + MORE + UNPROVED]
)
def test_what_is_told_as_it_stands_calculated_or_compared_is_none(output: str, right: str) -> None:
    assert found(output, right) == []


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form["text"].split("\n")[0][:40])
def test_values_are_named_in_any_form_of_output(form: dict[str, list[str]]) -> None:
    output = str(form["text"])
    assert [text for text in form.get("wrong", ()) if not found(output, text)] == []
    assert [text for text in form["right"] if found(output, text)] == []


@pytest.mark.parametrize(
    ("output", "text", "wrong"),
    [
        # A number that was said nowhere, beside the name of one value.
        ("count\n-----\n1482\n(1 row)", "The count is 1842.", True),
        ("count\n-----\n1482\n(1 row)", "I expect that the count is 1842.", False),
        ("count\n-----\n1482\n(1 row)", "The count is about 1842.", False),
        ("count\n-----\n1482\n(1 row)", "The count is 1500.", False),
        ("size: 7168", "The size is 7 kB.", False),
        ("lines: 40\nblank: 10", "The blank share is 25%.", False),
        ("timeout: 45", "We set the timeout to 30.", False),
        # A word of another line, or the contrary of the value.
        ("web_check PASSED\ndb_check FAILED\nui_check PASSED", "db_check passed.", True),
        ("web_check PASSED\ndb_check FAILED\nui_check PASSED", "db_check has not passed.", False),
        ("web_check PASSED\ndb_check FAILED\nui_check PASSED", "db_check failed.", False),
        ("Active: inactive (dead)", "The service is active.", True),
        ("Active: inactive (dead)", "Once it is active, I go on.", False),
        ("Active: inactive (dead)", "It is not active.", False),
        # A longer name is meant where both are said.
        ("loss: 0.2\nval_loss: 0.4", "The val loss is 0.2.", True),
        ("loss: 0.2\nval_loss: 0.4", "The val loss is 0.4.", False),
        # Pages are no program's output, and neither are lists of records.
        ("Oslo 12\nBergen 17\n" + 70 * "long " + "line", "Bergen has 12.", False),
        ('[{"Oslo": 12}, {"Bergen": 17}]', "Bergen has 12.", False),
        # Numbers at the end of names, and those that a part is taken of, are told of nothing.
        ("server: nginx/1.24.0\nage: 301", "The server answers with 301.", False),
        ("failed: 0\nall: 900", "There were no failed ones among 900.", False),
        ("failed: 2\nall: 66", "Two of the 66 failed.", False),
        ("failed: 2\nall: 66", "66 failed.", True),
        # Numbers of entries and of code are told of nothing.
        ("oak: 3\nelm: 5", "3. The elm is next.", False),
        ("oak: 3\nelm: 5", "```\nelm = 3\n```", False),
    ],
)
def test_a_value_is_told_in_its_name_alone(output: str, text: str, wrong: bool) -> None:
    assert (found(output, text) != []) is wrong


def test_a_clause_is_of_the_latest_output_that_has_its_name() -> None:
    later = did("bash", "oak: 7\nelm: 5")
    assert found("oak: 3\nelm: 5", "The oak has 3.", *later) == []
    assert found("oak: 3\nelm: 5", "The oak has 5.", *later) == [
        (5, "says 5 for 'oak: 7', the output at 4 says 7")
    ]


def test_an_output_far_back_is_not_told_of() -> None:
    between = [step for n in range(4) for step in did("bash", f"ash: {n}")]
    assert found("oak: 3\nelm: 5", "The oak has 5.", *between) == []


def test_an_environment_without_calls_prints_outputs_too() -> None:
    shell = Step(index=0, actor="environment", parts=agent("Code output: oak: 3\nelm: 5").parts)
    made = run(user("look"), agent("python count.py"), shell, agent("The oak has 5."))
    assert [x.step for x in find_misread_lines(made, evidence_of(made))] == [3]


@pytest.mark.parametrize(
    ("output", "text", "wrong"),
    [
        ("real\t0m3.214s", "It took 3.2 seconds.", False),
        ("real\t0m3.214s", "It took 2.3 seconds.", True),
        ("took 95 s", "It took a bit over 1.5 minutes.", False),
        ("Duration: 95 s", "The duration was 59 s.", True),
        ("736K\t/var/log\n92M\t/var/lib", "/var/log needs 736 MB.", True),
        ("736K\t/var/log\n92M\t/var/lib", "/var/log needs 0.7 MB.", False),
        ("size: 1536 KiB", "The size is 1.5 MiB.", False),
        ("size: 2.4M", "The size is 4.2 MB.", True),
        ("accuracy: 0.873", "The accuracy is 87%.", False),
        ("accuracy: 0.873", "The accuracy is 83%.", True),
        ("Python 3.11.4", "Python 3.11 is installed.", False),
        ("Python 3.11.4", "Python 3.10 is installed.", True),
        ("Python 3.11.4", "Python 3.10 would do, too.", False),
    ],
)
def test_a_value_may_be_told_rounded_or_in_another_unit(
    output: str, text: str, wrong: bool
) -> None:
    assert (found(output, text) != []) is wrong


@pytest.mark.parametrize(
    ("output", "text", "wrong"),
    [
        ("13 passed, 1 failed in 2.10s", "12 tests passed.", True),
        ("13 passed, 1 failed in 2.10s", "Twelve tests passed, one failed.", True),
        ("13 passed, 1 failed in 2.10s", "13 of the 14 tests passed.", False),
        ("13 passed, 1 failed in 2.10s", "12 more tests passed than failed.", False),
        ("13 passed, 1 failed in 2.10s", "I expect that 12 tests passed.", False),
        ("13 passed, 1 failed in 2.10s", "If 12 tests passed, we are done.", False),
        ("13 passed, 1 failed in 2.10s", "Not 12 tests passed.", False),
        ("13 passed, 1 failed in 2.10s", "Were 12 tests passed?", False),
        ("13 passed, 1 failed in 2.10s", "12 files are in the folder.", False),
        ("13 passed, 1 failed in 2.10s", "All tests pass.", True),
        ("13 passed, 0 failed in 2.10s", "All tests pass.", False),
        ("2 errors, 3 warnings", "There were no errors.", True),
        ("0 errors, 3 warnings", "There were no errors.", False),
        ("No errors, 3 warnings", "There were 2 errors.", True),
        ("1482", "There are 1842 lines.", True),
        ("1482", "There are 1,482 lines, about 1,500.", False),
        ("1482", "There are 77 lines in the other file.", False),
        ("founded: 1912", "It was founded in 1921.", True),
        ("founded: 1912", "Since 2004 it is a museum, founded in 1912.", False),
    ],
)
def test_a_number_that_nothing_says_is_of_the_one_that_it_stands_for(
    output: str, text: str, wrong: bool
) -> None:
    assert (found(output, text) != []) is wrong


@pytest.mark.parametrize(
    ("output", "text", "wrong"),
    [
        ("name  size  hits\noak   12    300\nelm   45    810", "elm has a size of 12.", True),
        ("name  size  hits\noak   12    300\nelm   45    810", "elm has a size of 45.", False),
        ("| name | hits |\n|---|---|\n| oak | 300 |\n| elm | 810 |", "oak has 810 hits.", True),
        ("| name | hits |\n|---|---|\n| oak | 300 |\n| elm | 810 |", "oak has 300 hits.", False),
        ("name,hits\noak,300\nelm,810", "elm has 300 hits.", True),
        ("name,hits\noak,300\nelm,810", "elm has 810 hits, oak 300.", False),
        ("   mean  std\noak  2.5  0.7\nelm  3.5  0.4", "The mean of elm is 2.5.", True),
        ("   mean  std\noak  2.5  0.7\nelm  3.5  0.4", "The mean of elm is 3.5.", False),
        ('{"retries": 3, "limit": 25}', "The limit is 3.", True),
        ('{"retries": 3, "limit": 25}', "The limit is 25 with 3 retries.", False),
        ("memory:\n  used: 210 MB\n  free: 790 MB", "790 MB are used.", True),
        ("memory:\n  used: 210 MB\n  free: 790 MB", "790 MB are free.", False),
    ],
)
def test_a_value_is_named_by_its_line_and_its_column(output: str, text: str, wrong: bool) -> None:
    assert (found(output, text) != []) is wrong


SIZES = "412M\t/var/log\n2.3G\t/var/cache\n92M\t/var/lib"
EPOCHS = "epoch  loss  acc\noak    0.52  0.71\nelm    0.31  0.84\nash    0.44  0.79"


@pytest.mark.parametrize(
    ("output", "text", "wrong"),
    [
        (SIZES, "The largest directory is /var/log.", True),
        (SIZES, "The largest directory is /var/cache.", False),
        (SIZES, "The smallest directory is /var/log.", True),
        (SIZES, "The smallest is /var/lib with 92 MB.", False),
        (SIZES, "The second largest directory is /var/log.", False),
        (SIZES, "/var/log is not the largest one; that is another.", False),
        (SIZES, "If /var/log is the largest one, empty it.", False),
        (SIZES, "Is /var/log the largest one?", False),
        (SIZES, "/var/log is larger than most.", False),
        (EPOCHS, "The lowest loss is that of oak.", True),
        (EPOCHS, "The lowest loss is that of elm.", False),
        (EPOCHS, "The highest acc has oak.", True),
        (EPOCHS, "The highest acc has elm.", False),
        ("oak 12\nelm 20\ntotal 32", "Most nests are in the oak.", True),
        ("oak 12\nelm 20\ntotal 32", "Most nests are in the elm.", False),
        ("largest: oak 12\nelm 20", "The largest is the oak.", False),
    ],
)
def test_what_is_told_as_the_largest_has_the_largest_value(
    output: str, text: str, wrong: bool
) -> None:
    assert (found(output, text) != []) is wrong


@pytest.mark.parametrize(
    ("output", "text", "wrong"),
    [
        ("build: failed\nlint: passed", "The build passed.", True),
        ("build: failed\nlint: passed", "The build failed, lint passed.", False),
        ("build: failed\nlint: passed", "The build has not passed.", False),
        ("build: failed\nlint: passed", "The build should have passed.", False),
        ("cache: enabled\ndebug: false", "The cache is disabled.", True),
        ("cache: enabled\ndebug: false", "The cache is enabled and debug is off.", False),
        ("cache: enabled\ndebug: false", "debug is on.", True),
        ("cache: enabled\ndebug: false", "I disabled the cache.", False),
    ],
)
def test_a_state_is_told_as_it_stands(output: str, text: str, wrong: bool) -> None:
    assert (found(output, text) != []) is wrong


def test_a_state_and_what_is_the_most_are_told_of_the_latest_output_alone() -> None:
    for output, text in (
        ("build: failed", "The build passed."),
        (SIZES, "The largest is /var/lib."),
    ):
        assert [step for step, _ in found(output, text)] == [3]
        assert found(output, text, *did("bash", "", command="make; rm -r /var/cache")) == []


def test_what_an_act_sets_is_told_rightly() -> None:
    act = did("bash", "ok", command="sed -i s/45/30/ app.yaml")
    assert found("timeout: 45", "The timeout is 30.", *act) == []
    assert found("timeout: 45", "The timeout is 3.", *act) != []


PRICES = "pear 2.40\nplum 1.15\nfig 3.05"
TREES = "oak 12 nests\nelm 20 nests\nash 8 nests"
SCORES = "        precision    recall\n\n  oak       0.91      0.77\n  elm       0.88      0.77"
TIMES = "     mean time  hits\noak        2.5    12\nelm        3.5     7"


@pytest.mark.parametrize(
    ("output", "text", "wrong"),
    [
        (PRICES, "Two pears and a plum cost 5.95.", False),
        (PRICES, "A pear and a plum cost 3.55.", False),
        (PRICES, "The plum costs 1.51.", True),
        ("free: 30%", "70% are not free.", False),
        ("free: 30%", "The used share is 70%.", False),
        (TREES, "The elm has 12 more nests than the ash.", False),
        (TREES, "The elm has 12 nests.", True),
        ("users 2150", "Users 2024: an overview.", False),
        ("users 2150", "Users: 3024 in all.", False),
        ("users 2150", "The users are 2510.", True),
        ("4 packets sent, 3 received", "3 of 4 packets came back.", False),
        ("4 packets sent, 3 received", "5 packets were sent.", True),
        (SCORES, "oak and elm have one recall, 0.77.", False),
        (SCORES, "The recall of elm is 0.88.", True),
        (TIMES, "oak has 12 hits at a mean time of 2.5.", False),
        (TIMES, "elm has 12 hits.", True),
        ("checks passed: 9\nchecks failed: 3", "3 of 12 checks failed.", False),
        ("checks passed: 9\nchecks failed: 3", "9 of 12 checks failed.", True),
        ("checks passed: 9\nchecks: 12", "9 of 12 checks passed.", False),
    ],
)
def test_what_follows_from_an_output_is_no_invention(output: str, text: str, wrong: bool) -> None:
    assert (found(output, text) != []) is wrong


def test_a_number_that_somebody_said_before_is_no_invention() -> None:
    output, text = "13 passed, 1 failed in 2.10s", "12 tests passed."
    made = run(user("12 passed yesterday"), *did("bash", output), agent(text))
    assert [*find_misread_lines(made, evidence_of(made))] == []
    made = run(user("look"), *did("bash", "step 12"), *did("bash", output), agent(text))
    assert [*find_misread_lines(made, evidence_of(made))] == []
    assert found(output, text) == [
        (3, "says 12 for '13 passed, 1 failed in 2.10s', the output at 2 says 13")
    ]


@pytest.mark.parametrize(
    ("output", "faults"),
    [
        ("oak 1 " * 1900, 0),
        ("oak 1\n" * 60, 249),
        ("\n".join([" ".join(f"a{n}  7{n}" for n in range(20))] * 60), 0),
        ('{"a": 1, ' * 1000, 0),
        ("1 " * 90 + "oak", 249),
        ('{"a": ' * 1500 + "1" + "}" * 1500, 0),
        ('{"a": {"b": 3}, ' * 700, 0),
        ("<td>oak</td><td>5</td>\n" * 60, 249),
        ("oak  elm  ash\n" + "  7   8\n" * 59, 0),
        ("\n".join(" " * n + f"oak{n}: {n}" for n in range(60)), 0),
    ],
)
def test_work_on_hostile_outputs_grows_with_what_is_told_of_them(output: str, faults: int) -> None:
    held: list[int] = []
    calls = []
    for n in (125, 250):
        text = n * "oak 2 and a3 5 of 4, " + n * "oak 2 and a3 5 of 4.\n"
        calls.append(count_calls(lambda text=text: held.append(len(found(output, text)))))  # type: ignore[misc]
    assert (held[1], calls[1] <= 2.3 * calls[0] + 500) == (faults, True)


@pytest.mark.parametrize("lines", [60, 61])
def test_longer_outputs_are_data(lines: int) -> None:
    output = "\n".join([*(f"oak{n}: {n + 100}" for n in range(lines - 1)), "elm: 5"])
    assert len(found(output, "The elm is 6.")) == (lines == 60)


@pytest.mark.parametrize(
    "text", ["The oak is 1" + ",000" * 110, "9" * 5000 + " m 5 s", "9" * 400 + " m 5 s"]
)
def test_a_long_number_with_commas_or_a_unit_is_no_value(text: str) -> None:
    assert found("oak: 3\nelm: 5", text) == []
    assert [one.size for one in values_in("it took 2 m 5.5 s")] == [125.5]


@pytest.mark.parametrize("digits", [21, 400, 5000])
def test_a_number_that_no_float_holds_is_no_value(digits: int) -> None:
    assert (plain_number(float("inf")), plain_number(-4.0), plain_number(2.5)) == (
        "inf",
        "4",
        "2.5",
    )
    assert found("oak: 3\nelm: 5", f"The oak is {'9' * digits}.") == []
    assert found(f"oak: {'9' * min(digits, 190)}\nelm: 5", "The oak has 5.") == []


Commands = tuple[tuple[str, str], ...]
BORN: Commands = (("born.py Ada", "1815"), ("born.py Charles", "1791"))
BUILDS: Commands = (("time ./old", "3.81"), ("time ./new", "4.66"))
DAYS: Commands = (("python first.py", "1903-04-17"), ("python last.py", "1911-10-02"))
WAYS: Commands = (("dist.py A B", "14.2 km"), ("dist.py A C", "9.6 km"))
TIDES: Commands = (("tides.py Brest", "high 6.4 m\nlow 1.2 m"), ("tides.py Calais", "high 7.1 m"))
PRICED: Commands = (("quote NVX", '{"price": 41.2}'), ("quote ORL", '{"price": 38.75}'))
STATES: Commands = (("is-active nginx", "active"), ("is-active redis", "inactive"))
RELEASES: Commands = (("cat VERSION", "4.2.0"), ("cat old/VERSION", "3.9.1"))


def by_calls(command: str, output: str) -> tuple[Step, Step]:
    return did("bash", f"{output}\n[The command completed with exit code 0.]", command=command)


def by_blocks(command: str, output: str) -> tuple[Step, Step]:
    printed = agent(f"exitcode: 0 (execution succeeded)\nCode output: {output}\n").parts
    shell = Step(index=0, actor="environment", parts=printed)
    return agent(f"Look.\n\n```sh\n{command}\n```\n\nPlease run this."), shell


def by_screens(command: str, output: str) -> tuple[Step, Step]:
    return did("keys", f"New Terminal Output:\n\nroot@box:/app# {command}\n{output}\nexit=0\n")


@pytest.mark.parametrize("form", [by_calls, by_blocks, by_screens])
@pytest.mark.parametrize(
    ("commands", "text", "wrong"),
    [
        (BORN, "Charles was born in 1815, Ada in 1791.", True),
        (BORN, "Charles (1791) was 24 years older than Ada (1815).", False),
        (BORN, "Ada was born in 1791, 24 years before Charles.", True),
        (BUILDS, "The old build takes 4.66s, the new one only 3.81s.", True),
        (BUILDS, "The new build needs 4.66s, 0.85s more than the old one.", False),
        (DAYS, "The first entry is of 1911, the last of 1903.", True),
        (DAYS, "The last entry is of April 17, 1903.", True),
        (DAYS, "The first entry is of 17 April, the last of October 1911.", False),
        (DAYS, "They run from April 17, 1903, to 1911.", False),
        (WAYS, "From A it's 9.6 km to B, so B is closer than C.", True),
        (WAYS, "From A it's 9.6 km to C, so C is closer than B.", False),
        (WAYS, "C is 4.6 km closer to A than B is.", False),
        (TIDES, "High tide at Calais is 6.4 m.", True),
        (TIDES, "High tide at Calais is 7.1 m, at Brest 6.4.", False),
        (PRICED, "ORL trades at 41.2.", True),
        (PRICED, "ORL trades at 38.75, 2.45 below NVX.", False),
        (STATES, "redis is active.", True),
        (STATES, "nginx is active, redis is not.", False),
        (RELEASES, "The old version is 4.2.0.", True),
        (RELEASES, "The old version is 3.9.1.", False),
    ],
)
def test_answers_to_commands_alike_are_named_by_what_each_command_alone_has(
    form: Callable[[str, str], tuple[Step, Step]], commands: Commands, text: str, wrong: bool
) -> None:
    printed = [step for one in commands for step in form(*one)]
    made = run(user("look"), *printed, agent(text))
    assert ([*find_misread_lines(made, evidence_of(made))] != []) is wrong


def test_answers_to_other_commands_and_to_the_same_one_are_held_alone() -> None:
    for first, second in (("born.py Ada", "df -h /srv"), ("born.py Ada", "born.py Ada")):
        printed = [*did("bash", "1815", command=first), *did("bash", "1791", command=second)]
        made = run(user("look"), *printed, agent("For Ada it is 1791."))
        assert [*find_misread_lines(made, evidence_of(made))] == []


YEARS = "2019: 3.40\n2020: 3.15\n2021: 3.80"


@pytest.mark.parametrize(
    ("output", "text", "wrong"),
    [
        # A number names its line before a value, and a year stands for a whole day.
        (YEARS, "The price was lowest in 2019, at 3.15.", True),
        (YEARS, "The lowest price, 3.15, was that of 2020.", False),
        (YEARS, "In 2021 it was 3.80, up from 3.40 in 2019.", False),
        ("2008 3.41\n2009 2.97", "In 2009 it was 3.41.", True),
        ("312 a.txt\n204 b.txt", "b.txt has 312 lines.", True),
        ("1. Ito\n2. Bauer\n3. Silva", "The three are Ito, Bauer and Silva.", False),
        ("sent: 2023-11-02\nends: 2026-05-30", "It ends on 2023-11-02.", True),
        ("sent: 2023-11-02\nends: 2026-05-30", "It was sent in 2026.", True),
        ("sent: 2023-11-02\nends: 2026-05-30", "Sent in 2023, it ends on 30 May 2026.", False),
        ("June 4.1\nJuly 18.6", "In July it is 4.1 degrees.", True),
        ("June 4.1\nJuly 18.6", "In July it is 18.6 degrees.", False),
        # The rest of a whole is told without the name of its part.
        ("matched 212 of 640", "428 of the 640 entries matched.", True),
        ("matched 212 of 640", "428 of the 640 did not match.", False),
        ("matched 212 of 640", "428 of the 640 failed to match.", False),
        ("matched 212 of 640", "A third of them (212 of 640) matched.", False),
        # Of what another thing is told, nothing before it is named.
        ("Lund 1666\nUppsala 1477", "Of the two, Uppsala was founded later, in 1666.", True),
        ("Lund 1666\nUppsala 1477", "Of the two, Lund was founded later, in 1666.", False),
        ("Oslo 709037\nBergen 291940", "Oslo has 291940, Bergen more than twice as many.", True),
        ("Oslo 709037\nBergen 291940", "Bergen has 291940, so Oslo is far bigger.", False),
        ("Mars 687 days\nVenus 225 days", "A year on Mars lasts 225 days.", True),
        ("Mars 687 days\nVenus 225 days", "Venus needs 462 days less than Mars.", False),
    ],
)
def test_a_line_is_named_by_its_year_and_a_value_by_its_own_clause(
    output: str, text: str, wrong: bool
) -> None:
    assert (found(output, text) != []) is wrong


@pytest.mark.parametrize(
    ("commands", "text"),
    [
        (BORN, "Charles died in 1871, Ada long before."),
        (BORN, "In 1815, when Ada was born, Charles was 24."),
        (DAYS, "The last entry was made eight years after 1903."),
        (RELEASES, "The version goes from 3.9.1 to 4.2.0."),
        ((("x", "started: 2024-03-05\nended: 2024-04-11"),), "It ended 37 days after 2024-03-05."),
        ((("x", YEARS),), "The change from 2019 to 2021 is 0.40."),
        ((("x", "gold 8\nsilver 11\ntin 10"),), "8, 11 and 10 are gold, silver and tin."),
        ((("x", "due: 2024-04-11\nsent: 2024-05-02"),), "The new due date is May 2."),
    ],
)
def test_what_a_value_is_counted_from_and_what_is_listed_apart_is_told_of_no_name(
    commands: Commands, text: str
) -> None:
    printed = [step for one in commands for step in by_calls(*one)]
    made = run(user("look"), *printed, agent(text))
    assert [*find_misread_lines(made, evidence_of(made))] == []
