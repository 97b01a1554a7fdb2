"""The commands as a person meets them: output, errors with their place, exit codes, JSON, speed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from windowpane.cli.app import app

runner = CliRunner()

PIPELINE = '''\
[streams.bids]
format = "json"
path = "data"
schema = "auction BIGINT, price BIGINT, ts STRING"
eventtime = { column = "ts", type = "iso8601" }

[options]
eventtime = { enabled = true, late_tolerance = "5s" }

[transforms.hot]
sql = """
SELECT auction, count(*) AS n, max(price) AS top
FROM bids
GROUP BY tumblingwindow('ss', 10), auction
"""
sink = "results"

[transforms.slow]
sql = "SELECT count(*) AS n FROM bids GROUP BY hoppingwindow('mi', 10, 1)"
sink = "results"

[sinks.results]
format = "console"
'''
BARE = ("explain", "--stream", "bids=auction BIGINT, ts TIMESTAMP")
QUERY = "SELECT auction, count(*) AS n FROM bids GROUP BY window(ts, '10 seconds'), auction"


def run(*args: str, stdin: str | None = None) -> tuple[int, str, str]:
    result = runner.invoke(app, list(args), input=stdin)
    return result.exit_code, result.stdout, result.stderr


def run_json(*args: str) -> tuple[int, dict[str, Any]]:
    code, out, err = run(*args, "--json")
    assert err == ""
    parsed: dict[str, Any] = json.loads(out)
    return code, parsed


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.toml"
    path.write_text(PIPELINE)
    return path


def changed(path: Path, old: str, new: str) -> str:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return str(path)


def line_of(path: Path, text: str) -> int:
    return next(number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def test_check(pipeline: Path) -> None:
    code, out, err = run("check", str(pipeline))
    assert (code, err) == (0, "")
    assert out.startswith(f"{pipeline} is fine.\n\nhot\n  reads       stream bids (json)\n")
    assert "5s behind the latest event time" in out
    assert "\nslow\n" in out


def test_check_one_transform(pipeline: Path) -> None:
    code, out, _ = run("check", str(pipeline), "--transform", "slow")
    assert code == 0
    assert "slow" in out
    assert "hot" not in out.replace(str(pipeline), "")


def test_check_json(pipeline: Path) -> None:
    code, answer = run_json("check", str(pipeline))
    assert code == 0
    assert [each["name"] for each in answer["transforms"]] == ["hot", "slow"]
    assert answer["transforms"][0]["summary"]["window"] == "tumbling, 10s each"


def test_unknown_transform(pipeline: Path) -> None:
    code, out, err = run("explain", str(pipeline), "--transform", "hto")
    assert (code, out) == (2, "")
    assert err.startswith("[UNKNOWN_TRANSFORM] there is no transform `hto`")
    assert "hint: transforms: hot, slow" in err


def test_sql_error_names_the_line_of_the_file_and_of_the_sql(pipeline: Path) -> None:
    path = changed(pipeline, "max(price)", "max(prize)")
    code, out, err = run("check", path)
    assert (code, out) == (2, "")
    line = line_of(pipeline, "max(prize)")
    assert f"  at {path}:{line}, line 1, column 36 of the SQL\n" in err
    assert "    SELECT auction, count(*) AS n, max(prize) AS top\n" in err
    assert "^^^^^\n" in err
    assert err.startswith("[UNKNOWN_COLUMN]")


def test_error_in_a_schema_speaks_of_the_schema(pipeline: Path) -> None:
    path = changed(pipeline, "price BIGINT", "price BIGNIT")
    _, _, err = run("check", path)
    assert err.startswith("[BAD_SCHEMA]")
    assert "of the schema\n" in err
    assert "SQL" not in err


def test_unknown_functions_are_found_unless_they_are_listed_as_udfs(pipeline: Path) -> None:
    path = changed(pipeline, "max(price)", "summ(price)")
    code, _, err = run("check", path)
    assert (code, err.splitlines()[0]) == (2, "[UNKNOWN_FUNCTION] there is no function `summ`")
    assert "hint: nearest: sum" in err
    pipeline.write_text(
        pipeline.read_text().replace("summ(price)", "max(summ(price))") + '\n[spark]\nfunctions = ["Summ"]\n'
    )
    assert run("check", path)[0] == 0


def test_a_file_instead_of_a_folder(pipeline: Path) -> None:
    (pipeline.parent / "data").write_text("{}")
    code, out, _ = run("check", str(pipeline))
    assert code == 0
    assert "warning: [PATH_IS_A_FILE] stream `bids`: `data` is a file, and Spark reads streams from folders\n" in out
    assert 'hint: set path = "." and options = { pathGlobFilter = "data" }' in out


def test_a_missing_folder_is_a_warning_of_check_and_an_error_of_run(pipeline: Path) -> None:
    code, out, _ = run("check", str(pipeline))
    assert code == 0
    assert "warning: [PATH_NOT_FOUND] stream `bids`: there is no file or folder `data`\n" in out
    assert run_json("check", str(pipeline))[1]["warnings"][0]["key"] == "streams.bids.path"
    code, _, err = run("run", str(pipeline))
    assert code == 2
    assert "[PATH_NOT_FOUND] stream `bids`: there is no file or folder `data`" in err
    assert not (pipeline.parent / "data").exists()
    path = changed(pipeline, 'path = "data"', 'path = "data"\ncreate = true')
    assert "warning" not in run("check", path)[1]


def test_a_missing_file_of_a_table_is_found_like_that_of_a_stream(pipeline: Path) -> None:
    path = changed(pipeline, "FROM bids", "FROM bids JOIN names ON bids.auction = names.id")
    pipeline.write_text(
        pipeline.read_text() + '\n[tables.names]\nformat = "csv"\npath = "names.csv"\nschema = "id BIGINT"\n'
    )
    (pipeline.parent / "data").mkdir()
    assert "warning: [PATH_NOT_FOUND] table `names`: there is no file or folder `names.csv`\n" in run("check", path)[1]
    code, _, err = run("run", path)
    assert code == 2
    assert "[PATH_NOT_FOUND] table `names`" in err
    (pipeline.parent / "names.csv").write_text("1\n")
    assert "warning" not in run("check", path)[1]


def test_nothing_is_wrapped_in_a_pipe(pipeline: Path) -> None:
    names = [f"max(price) AS a_name_that_takes_some_room_{number}" for number in range(9)]
    path = changed(pipeline, "max(price) AS top", ", ".join(names))
    assert any(all(name[14:] in line for name in names) for line in run("check", path)[1].splitlines())
    for command in ("check", "run", "explain", "inspect", "test", "schema"):
        shown = run(command, "--help")[1]
        assert not [line for line in shown.splitlines() if line.startswith(" " * 20)], "the rest of a line above"
    assert "\n    windowpane explain --stream" in run("explain", "--help")[1]


def test_sql_error_on_a_later_line(pipeline: Path) -> None:
    path = changed(pipeline, "'ss', 10)", "'sec', 10)")
    code, _, err = run("check", path)
    assert code == 2
    assert f"  at {path}:{line_of(pipeline, 'sec')}, line 3, column" in err


def test_sql_error_in_a_one_line_text(pipeline: Path) -> None:
    path = changed(pipeline, "hoppingwindow('mi', 10, 1)", "hoppingwindow('mi', 10)")
    code, _, err = run("check", path)
    assert code == 2
    assert f"  at {path}:{line_of(pipeline, 'hoppingwindow')}, line 1, column" in err


def test_sql_error_in_a_file_of_its_own(pipeline: Path) -> None:
    query = pipeline.parent / "slow.sql"
    query.write_text("SELECT count(*) AS n\nFROM bidz GROUP BY tumblingwindow('ss', 1)\n")
    path = changed(
        pipeline,
        "sql = \"SELECT count(*) AS n FROM bids GROUP BY hoppingwindow('mi', 10, 1)\"",
        'sql_file = "slow.sql"',
    )
    code, _, err = run("check", path)
    assert code == 2
    assert f"  at {query}:2, line 2, column 6 of the SQL" in err


def test_plan_error_names_the_key(pipeline: Path) -> None:
    path = changed(pipeline, 'column = "ts"', 'column = "tss"')
    code, _, err = run("check", path)
    assert code == 2
    line = line_of(pipeline, '"tss"')
    assert f"  at {path}:{line} key `streams.bids.eventtime.column`\nhint: its columns: ts, " in err


def test_bad_schema_names_the_line(pipeline: Path) -> None:
    path = changed(pipeline, "price BIGINT", "price BIGIN")
    code, _, err = run("check", path)
    assert code == 2
    assert err.startswith("[BAD_SCHEMA]")
    assert f"  at {path}:{line_of(pipeline, 'BIGIN,')}" in err


def test_json_errors(pipeline: Path) -> None:
    path = changed(pipeline, "max(price)", "max(prize)")
    code, answer = run_json("check", path)
    assert code == 2
    assert answer["error"]["code"] == "UNKNOWN_COLUMN"
    assert answer["error"]["file"] == path
    assert answer["error"]["file_line"] == line_of(pipeline, "max(prize)")


def test_config_error(pipeline: Path) -> None:
    path = changed(pipeline, 'sink = "results"', 'sink = "reslts"')
    code, out, err = run("check", path)
    assert (code, out) == (2, "")
    assert "UNKNOWN_SINK" in err


def test_no_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run("check")
    assert code == 2
    assert err.startswith("[CONFIG_NOT_FOUND]")
    assert "windowpane init" in err


def test_pipeline_is_found_above(pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = pipeline.parent / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert run("check")[0] == 0


def test_values_from_the_environment_are_never_printed(pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDOWPANE_SECRET", "hunter2hunter2")
    path = changed(pipeline, "FROM bids\n", "FROM bids WHERE auction = '${WINDOWPANE_SECRET}' AND nope = 1\n")
    for args in (("check", path), ("check", path, "--json"), ("explain", path)):
        code, out, err = run(*args)
        assert code == 2
        assert "hunter2" not in out + err
    changed(pipeline, " AND nope = 1", "")
    for args in (("check", path), ("check", path, "--json"), ("explain", path), ("explain", path, "--json")):
        code, out, err = run(*args)
        assert code == 0
        assert "hunter2" not in out + err


@pytest.mark.parametrize(
    ("chosen", "shown"),
    [
        ((), {"logical", "optimized", "physical"}),
        (("--logical",), {"logical"}),
        (("--optimized", "--physical"), {"optimized", "physical"}),
    ],
)
def test_explain_sections(pipeline: Path, chosen: tuple[str, ...], shown: set[str]) -> None:
    code, answer = run_json("explain", str(pipeline), "--transform", "hot", *chosen)
    assert code == 0
    (plan,) = answer["plans"]
    assert {"logical", "optimized", "physical"} & set(plan) == shown
    _, text, _ = run("explain", str(pipeline), "--transform", "hot", *chosen)
    titles = {"logical": "== Logical plan ==", "optimized": "== Optimized", "physical": "== Physical plan =="}
    assert {section for section, title in titles.items() if title in text} == shown


def test_explain_bare_sql() -> None:
    code, out, err = run(*BARE, "--sql", QUERY)
    assert (code, err) == (0, "")
    assert "PhysicalEventTime#6 steps=[sql_override(ts: timestamp) or error]" in out


def test_explain_sql_from_stdin_and_file(tmp_path: Path) -> None:
    _, direct, _ = run(*BARE, "--sql", QUERY)
    assert run(*BARE, "--sql", "-", stdin=QUERY)[1] == direct
    (tmp_path / "q.sql").write_text(QUERY)
    assert run(*BARE, "--sql-file", str(tmp_path / "q.sql"))[1] == direct


def test_explain_with_event_time_and_table() -> None:
    code, out, _ = run(
        "explain", "--stream", "s=k BIGINT, ms BIGINT", "--table", "t=k BIGINT, name STRING", "--eventtime",
        "s=ms:unixtimestamp_ms", "--sql", "SELECT name, count(*) AS n FROM s JOIN t USING (k) "
        "GROUP BY tumblingwindow('ss', 1), name", "--physical",
    )  # fmt: skip
    assert code == 0
    assert "stream_column(ms: unixtimestamp_ms)" in out
    assert "PhysicalStaticJoin" in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--sql", "x", "--stream", "bids"), "--stream `bids` is not NAME=…"),
        (("--stream", "s=a INT"), "there is no query"),
        (("--sql", "SELECT 1", "--sql-file", "x.sql"), "--sql and --sql-file cannot be combined"),
        (("--sql", "SELECT 1", "--transform", "hot"), "--transform and a query on the command line cannot be combined"),
        (("--sql", "SELECT 1", "pipeline.toml"), "`pipeline.toml` and a query on the command line cannot be combined"),
        (("--sql-file", "nowhere.sql"), "`nowhere.sql` cannot be read"),
        (("--sql", "x", "--stream", "s=a INT", "--eventtime", "r=a"), "--eventtime names the stream `r`"),
    ],
)
def test_bad_options(args: tuple[str, ...], message: str) -> None:
    code, out, err = run("explain", *args)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_sql_error_on_the_command_line() -> None:
    code, _, err = run(*BARE, "--sql", "SELECT auctoin FROM bids")
    assert code == 2
    assert err.startswith("[UNKNOWN_COLUMN] there is no column `auctoin`\n  line 1, column 8\n")


def test_init_then_check(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    code, out, _ = run("init", str(folder))
    assert code == 0
    assert f"wrote {folder / 'pipeline.toml'}" in out
    assert run("check", str(folder / "pipeline.toml"))[0] == 0
    code, _, err = run("init", str(folder))
    assert code == 2
    assert "pipeline.toml" in err


def test_schema_is_json() -> None:
    code, out, _ = run("schema")
    assert code == 0
    assert json.loads(out)["title"] == "windowpane pipeline"


@pytest.mark.parametrize("command", ["check", "explain", "init", "schema"])
def test_help_has_an_example(command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert "Example" in out
    assert f"windowpane {command}" in out


def test_a_bug_of_ours(pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr("windowpane.cli.check.plan_transforms", broken)
    code, out, err = run("check", str(pipeline))
    assert (code, out) == (70, "")
    assert err.startswith("[INTERNAL] KeyError: 'oops'\n")
    assert "please report" in err
    assert "Traceback" not in err
    assert "Traceback" in run("check", str(pipeline), "--debug")[2]
    code, answer = run_json("check", str(pipeline))
    assert (code, answer["error"]["code"]) == (70, "INTERNAL")


def windowpane(*args: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from windowpane.cli import main; main()", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, encoding="utf-8", **kwargs)


@pytest.mark.slow
def test_process_exit_codes_and_streams(pipeline: Path) -> None:
    good = windowpane("check", str(pipeline))
    assert (good.returncode, good.stderr) == (0, "")
    assert "is fine" in good.stdout
    path = changed(pipeline, "max(price)", "max(prize)")
    bad = windowpane("check", path)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("[UNKNOWN_COLUMN]")
    assert "\x1b[" not in bad.stderr
    usage = windowpane("check", "--nonsense")
    assert usage.returncode == 2
    assert "Traceback" not in usage.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colour_on_a_terminal_unless_no_color_is_set(pipeline: Path, no_color: str, coloured: bool) -> None:
    path = changed(pipeline, "max(price)", "max(prize)")
    ours, theirs = os.openpty()
    command = [sys.executable, "-c", "from windowpane.cli import main; main()", "check", path]
    code = subprocess.run(command, stderr=theirs, env=os.environ | {"NO_COLOR": no_color}, check=False).returncode
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert code == 2
    assert "UNKNOWN_COLUMN" in shown
    assert ("\x1b[" in shown) is coloured


def test_version_in_a_process() -> None:
    assert windowpane("--version").stdout.startswith("windowpane ")


@pytest.mark.slow
def test_output_is_utf8_in_any_locale(pipeline: Path) -> None:
    answer = windowpane("explain", str(pipeline), env=os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0"})
    assert answer.returncode == 0
    assert "└─ " in answer.stdout


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error(pipeline: Path) -> None:
    script = "from windowpane.cli import main; main()"
    command = f"{sys.executable} -c '{script}' explain {pipeline} | head -n 1"
    answer = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert answer.stderr == ""
    assert answer.stdout.startswith("Plan ")


@pytest.mark.slow
def test_explain_starts_neither_spark_nor_duckdb(pipeline: Path) -> None:
    script = (
        "import sys\nfrom windowpane.cli.app import app\n"
        f"try: app(['explain', {str(pipeline)!r}])\nexcept SystemExit: pass\n"
        "loaded = {'pyspark', 'duckdb', 'py4j', 'pandas'} & set(sys.modules)\nassert not loaded, loaded\n"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


def test_run_refuses_mistakes_before_spark_starts(pipeline: Path) -> None:
    broken = pipeline.read_text(encoding="utf-8").replace("max(price)", "max(prize)")
    pipeline.write_text(broken, encoding="utf-8")
    code, out, err = run("run", str(pipeline))
    assert (code, out) == (2, "")
    assert "[UNKNOWN_COLUMN]" in err
    assert "starting Spark" not in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--trigger", "sometimes"), "sometimes"),
        (("--drain", "--trigger", "10s"), "never reaches"),
        (("--transform", "hto"), "there is no transform `hto`"),
    ],
)
def test_run_refuses_bad_options(pipeline: Path, args: tuple[str, ...], message: str) -> None:
    code, _, err = run("run", str(pipeline), *args)
    assert code == 2
    assert message in err


def test_errors_of_run_are_one_line_of_json(pipeline: Path) -> None:
    code, out, _ = run("run", str(pipeline), "--json", "--transform", "hto")
    assert code == 2
    assert [json.loads(line)["error"]["code"] for line in out.splitlines()] == ["UNKNOWN_TRANSFORM"]


def test_status_drain_and_inspect_where_nothing_has_run(pipeline: Path) -> None:
    for command, shown in (("status", "NEVER_RUN"), ("drain", "NOT_RUNNING"), ("stop", "NOT_RUNNING")):
        code, _, err = run(command, str(pipeline))
        assert code == 1
        assert f"[{shown}]" in err
    code, _, err = run("inspect", str(pipeline))
    assert code == 1
    assert "[NO_CHECKPOINT]" in err
