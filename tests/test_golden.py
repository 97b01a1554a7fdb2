"""The golden files of tests/slt, each as written, cut into single rows, and restarted after every step; and the
format itself: what is read, what is refused, how a difference reads, and what completing rewrites.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from windowpane.cli.app import app
from windowpane.errors import ConfigError
from windowpane.testing import golden
from windowpane.testing.golden.literals import parse_literal
from windowpane.testing.golden.values import matches, render

FOLDER = Path(__file__).parent / "slt"
FILES = golden.find([FOLDER])


@pytest.mark.parametrize("path", FILES, ids=[path.relative_to(FOLDER).with_suffix("").as_posix() for path in FILES])
def test_golden_file_holds(path: Path) -> None:
    for verdict in golden.check(golden.read_golden(path), golden.MODES):
        assert verdict.holds, f"{verdict.mode}\n{verdict.render()}"


HEAD = """# A file to look at.
stream s: ts BIGINT, k STRING, a BIGINT
  eventtime = { column = "ts", type = "unixtimestamp_ms" }
options
  eventtime.enabled = true
query
  SELECT window_start, k, sum(a) AS total FROM s GROUP BY tumblingwindow('ss', 10), k
"""
STEPS = """push
  ts  | k | a
  1s  | x | 1
  2s  | y | 2
  10s | x | 4
"""


def differences(text: str, mode: golden.Mode = "as-written") -> list[str]:
    (verdict,) = golden.check(golden.parse_golden(text, "x.slt"), [mode])
    return verdict.render().splitlines()


def test_a_difference_shows_what_is_missing_and_what_came() -> None:
    expected = "expect rows\n  window_start | k | total\n  0s | x | 1\n  0s | y | 7\n"
    assert differences(HEAD + STEPS + expected) == [
        "x.slt:8: push of 3 rows: rows, expected - and got +",
        "      window_start | k | total",
        "      0s           | x | 1",
        "    - 0s           | y | 7",
        "    + 0s           | y | 2",
    ]


def test_only_the_first_step_that_differs_is_shown() -> None:
    shown = differences(HEAD + STEPS + "end\n")
    assert "expected - and got +" in shown[0]
    assert shown[-1] == "  … and 1 later step"


@pytest.mark.parametrize("mode", golden.MODES)
@pytest.mark.parametrize(
    ("expected", "line"),
    [
        ("expect watermark 9s", "    - 9s"),
        ("expect accounting in 3, aggregated 2", "    - aggregated 2"),
        ("expect accounting aggregated 3", "    - in 0"),
        ("expect counts future_rows 1", "    - future_rows 1"),
        ("expect error FINISHED", "    - error FINISHED"),
        ("expect side\n  kind | reason\n  late | behind_watermark", "    - late | behind_watermark"),
    ],
)
def test_every_expectation_can_fail(expected: str, line: str, mode: golden.Mode) -> None:
    rows = "expect rows\n  window_start | k | total\n  0s | x | 1\n  0s | y | 2\n"
    assert differences(HEAD + STEPS + rows, mode) == []
    assert line in differences(HEAD + STEPS + rows + expected + "\n", mode)


def test_order_counts_when_asked_for() -> None:
    swapped = "\n  window_start | k | total\n  0s | y | 2\n  0s | x | 1\n"
    sql = HEAD.rstrip("\n") + " ORDER BY k\n"
    assert differences(sql + STEPS + "expect rows" + swapped) == []
    assert "    - 0s           | y | 2" in differences(sql + STEPS + "expect rows ordered" + swapped)


def test_rows_that_no_one_expects_are_a_difference() -> None:
    assert "    + 0s           | x | 1" in differences(HEAD + STEPS)


def test_columns_that_no_one_expects_are_a_difference() -> None:
    assert differences(HEAD + STEPS + "expect rows\n  k | total\n  x | 1\n  y | 2\n")


def test_a_query_that_is_refused_is_a_difference() -> None:
    refused = HEAD.replace("'ss'", "'xx'")
    assert differences(refused + "expect error UNKNOWN_UNIT\n") == []
    assert any("[UNKNOWN_UNIT]" in line for line in differences(refused + STEPS))
    assert "    + no error" in differences(HEAD + "expect error UNKNOWN_UNIT\n")


def test_a_push_is_cut_into_single_rows() -> None:
    updates = HEAD.rstrip("\n") + " EMIT ON UPDATE\n" + "push\n  ts | k | a\n  1s | x | 1\n  2s | x | 2\n"
    once = "expect rows\n  window_start | k | total\n  0s | x | 3\n"
    assert differences(updates + once) == []
    assert "    + 0s           | x | 1" in differences(updates + once, "single-rows")
    uncut = updates.replace("query\n", "cuttable no: updates are per batch\nquery\n")
    assert differences(uncut + once, "single-rows") == []


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("stream s: ts BIGINT\n", 1, "the first line must be a comment"),
        ("# why\nstraem s: ts BIGINT\n", 2, "unknown section `straem`"),
        ("# why\nstream s\n", 2, "declares nothing"),
        ("# why\nstream s: ts BIGNIT\n", 2, "BIGNIT"),
        ("# why\noptions\n  a = \n", 2, "the lines below `options`"),
        ("# why\n  indented\n", 2, "belongs to no section"),
        ("# why\nstream s: ts BIGINT\n", 2, "there is no query"),
        ("# why\npush\n", 2, "comes before the query"),
        (HEAD + "now 5s\n", 8, "comes after the query"),
        (HEAD + "push t\n", 8, "there is no stream `t`"),
        (HEAD + "push s shard\n", 8, "`push s shard` is not known"),
        (HEAD + "push at soon\n", 8, "`soon` is not an instant"),
        (HEAD + "push\n  ts | ts\n", 9, "is not a header"),
        (HEAD + "push\n  ts | k\n  1s\n", 10, "1 cells under a header of 2"),
        (HEAD + "push\n  k\n  'open\n", 10, "has no end"),
        (HEAD + "push\n  k\n  [1, 2\n", 10, "is missing after `2`"),
        (HEAD + "push\n  {'a': 1}\n", 9, "this is not JSON"),
        (HEAD + "watermark 5\n", 8, "`5` is not an instant"),
        (HEAD + "clock -5s\n", 8, "not a step of the clock"),
        (HEAD + "end now\n", 8, "takes no arguments"),
        (HEAD + "end\n  a\n", 9, "takes no lines below it"),
        (HEAD + "replay\n", 8, "no step to run once more"),
        (HEAD + "expect rows\n", 8, "only one `expect error CODE`"),
        (HEAD + "end\nexpect roes\n", 9, "nothing called `roes`"),
        (HEAD + "end\nexpect rows sorted\n", 9, "is not known"),
        (HEAD + "end\nexpect side\n  kind | raeson\n", 10, "no field `raeson`"),
        (HEAD + "end\nexpect watermark soon\n", 9, "`soon` is not an instant"),
        (HEAD + "end\nexpect accounting in three\n", 9, "is not a name with a number"),
        (HEAD + "end\nexpect accounting inn 3\n", 9, "no `inn`"),
        (HEAD + "end\nexpect error oops\n", 9, "not an error code"),
        (HEAD + "end\nexpect rows\nexpect rows\n", 10, "is not allowed here"),
        (HEAD + "restart\nexpect rows\n", 9, "is not allowed here"),
        (HEAD + "expect error OOPS\nend\n", 9, "has no steps"),
        (HEAD.replace("query\n", "cuttable no\nquery\n"), 6, "`cuttable no` is not known"),
        (HEAD.replace("query\n", "manual clock\nquery\n"), 6, "`manual clock` is not known"),
    ],
)
def test_mistakes_name_their_line(text: str, line: int, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        golden.parse_golden(text, "x.slt")
    assert (raised.value.code, raised.value.file, raised.value.line) == ("BAD_GOLDEN", "x.slt", line)
    assert message in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -5, 2.5, float("inf"), float("nan"), 1e300, "", "word", "two words", "it's", "a|b", "NULL", "12",
     "1.5", "10s", "[x", " lead", "true", "*", "#x", b"\x00\xff", [], [1, None], ["a,b", "c]"], {"a": 1, "b": ["x"]}],
)  # fmt: skip
def test_values_are_read_as_they_are_written(value: object) -> None:
    assert matches(parse_literal(render(value)), value)


@pytest.mark.parametrize(
    ("written", "value"),
    [("2", 2.0), ("2.0", 2), ("2.0", 2.1), ("NULL", 0), ("*", None), ("true", 1), ("'5'", 5), ("5", "5"),
     ("[1]", [1, 2]), ("NaN", 1.0), ("{a: 1}", {"a": 1, "b": 2}), ("x", "X")],
)  # fmt: skip
def test_values_of_another_type_do_not_match(written: str, value: object) -> None:
    assert not matches(parse_literal(written), value)


def test_completing_rewrites_expectations_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.slt"
    wrong = (
        "expect rows\n  # what closes\n  window_start | k | total\n  0s | y | 7\nexpect watermark 3s\n# and then\nend\n"
    )
    path.write_text(HEAD + "\n" + STEPS + wrong)
    assert golden.complete(path)
    right = "expect rows\n  # what closes\n  window_start | k | total\n  0s           | x | 1\n  0s           | y | 2\n"
    rest = "expect watermark 10s\n# and then\nend\nexpect rows\n  window_start | k | total\n  10s          | x | 4\n"
    assert path.read_text() == HEAD + "\n" + STEPS + right + rest
    assert golden.check(golden.read_golden(path), golden.MODES)[0].holds
    assert not golden.complete(path)


def test_completing_takes_away_what_does_not_come(tmp_path: Path) -> None:
    path = tmp_path / "x.slt"
    path.write_text(HEAD + "push\nexpect rows\n  k\n  x\nexpect side\n  kind\n  late\nend\nexpect error FINISHED\n")
    assert golden.complete(path)
    assert path.read_text() == HEAD + "push\nend\n"


def test_completing_writes_the_error_of_a_refused_query(tmp_path: Path) -> None:
    path = tmp_path / "x.slt"
    path.write_text(HEAD.replace("'ss'", "'xx'"))
    assert golden.complete(path)
    assert path.read_text() == HEAD.replace("'ss'", "'xx'") + "expect error UNKNOWN_UNIT\n"


def test_folders_without_files_are_a_mistake(tmp_path: Path) -> None:
    for folder, code in ((tmp_path, "NO_TEST_FILES"), (tmp_path / "none", "FILE_UNREADABLE")):
        with pytest.raises(ConfigError) as raised:
            golden.find([folder])
        assert raised.value.code == code


HOLDING = HEAD + STEPS + "expect rows\n  window_start | k | total\n  0s | x | 1\n  0s | y | 2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file that holds, and deeper one that does not."""
    (tmp_path / "good.slt").write_text(HOLDING)
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "bad.slt").write_text(HOLDING.replace("y | 2\n  10s", "y | 3\n  10s"))
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["test", *arguments])
    return result.exit_code, result.output


def test_command_reports_what_differs_and_goes_on(folder: Path) -> None:
    code, output = run(str(folder))
    assert code == 1
    assert "bad.slt:8: push of 3 rows: rows, expected - and got +" in output
    assert output.endswith("2 files: 1 passed, 1 failed\n")


def test_command_runs_every_mode(folder: Path) -> None:
    assert run(str(folder / "good.slt"), "--mode", "all") == (0, "1 file: 1 passed\n")
    code, output = run(str(folder / "good.slt"), "--mode", "restart")
    assert code == 2
    assert "valid: restarts" in output


def test_command_speaks_json(folder: Path) -> None:
    code, output = run(str(folder), "--json", "--mode", "all")
    report = json.loads(output)
    assert (code, report["files"], report["holding"], len(report["runs"])) == (1, 2, 1, 6)
    bad = [each for each in report["runs"] if not each["holds"]]
    assert [each["mode"] for each in bad] == list(golden.MODES)
    assert bad[0]["differences"][0]["subject"] == "rows"


def test_command_goes_on_after_a_file_that_cannot_be_read(folder: Path) -> None:
    (folder / "broken.slt").write_text("# why\nquary\n")
    code, output = run(str(folder))
    assert code == 2
    assert "broken.slt:2" in output
    assert output.endswith("3 files: 1 passed, 1 failed, 1 unreadable\n")


def test_command_completes(folder: Path) -> None:
    code, output = run(str(folder), "--complete")
    assert (code, output.splitlines()[-1]) == (0, "1 file rewritten")
    assert run(str(folder))[0] == 0
    assert (folder / "good.slt").read_text() == HOLDING


PIPELINE = """
[streams.other]
format = "json"
path = "other"
schema = "x STRING"
[streams.s]
format = "json"
path = "data"
schema = "ts BIGINT, k STRING, a BIGINT"
eventtime = { column = "ts", type = "unixtimestamp_ms" }
[streams.rows]
format = "parquet"
path = "rows"
[options]
eventtime = { enabled = true, late_tolerance = "2s" }
[transforms.totals]
sql = "SELECT window_start, k, sum(a) AS total FROM s GROUP BY tumblingwindow('ss', 10), k"
sink = "out"
allowed_lateness = "1s"
side_output = { late = { sink = "out" } }
[sinks.out]
format = "console"
"""


def test_a_file_can_name_a_transform_of_a_pipeline(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    (tmp_path / "tests").mkdir()
    path = tmp_path / "tests" / "x.slt"
    named = "# why\npipeline ../pipeline.toml transform totals\n"
    path.write_text(named + STEPS + "expect watermark 8s\nend\nexpect rows\n  window_start | k | total\n"
                    "  0s | x | 1\n  0s | y | 2\n  10s | x | 4\n")  # fmt: skip
    assert run(str(path), "--mode", "all") == (0, "1 file: 1 passed\n")
    path.write_text("# why\noptions\n  eventtime.late_tolerance = '0s'\n" + named.partition("\n")[2] + STEPS
                    + "expect watermark 10s\n")  # fmt: skip
    assert run(str(path)) == (0, "1 file: 1 passed\n")
    path.write_text(path.read_text().replace("10s\n", "11s\n"))
    assert golden.complete(path)
    assert "pipeline ../pipeline.toml transform totals\n" in path.read_text()


@pytest.mark.parametrize(
    ("written", "message"),
    [("pipeline", "names no transform"), ("pipeline p.toml transform x", "there is no file"),
     ("pipeline pipeline.toml transform total", "no transform `total`")],
)  # fmt: skip
def test_a_transform_that_cannot_be_named(tmp_path: Path, written: str, message: str) -> None:
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    with pytest.raises(ConfigError) as raised:
        golden.parse_golden(f"# why\n{written}\n", str(tmp_path / "x.slt"))
    assert (raised.value.code, raised.value.line) == ("BAD_GOLDEN", 2)
    assert message in raised.value.message


def page_examples(language: str) -> list[str]:
    page = (Path(__file__).parent.parent / "docs" / "testing.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_the_page_shows_a_file_that_holds(tmp_path: Path) -> None:
    path = tmp_path / "sessions.slt"
    path.write_text(page_examples("slt")[0])
    assert run(str(path), "--mode", "all") == (0, "1 file: 1 passed\n")
    path.write_text(path.read_text().replace("| 150", "| 160"))
    shown = run(str(path))[1].replace(str(path), "sessions.slt")
    assert page_examples("text")[1] in shown


def test_the_page_shows_python_that_runs() -> None:
    (example,) = page_examples("python")
    exec(example, {})
