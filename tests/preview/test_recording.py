"""`windowpane test --record`: a golden file with rows of the source, which passes as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.preview.test_previewing import PIPELINE, run
from tests.preview.test_previewing import pipeline as pipeline  # noqa: PLC0414  # a fixture
from windowpane.cli.app import app


def test_a_recorded_file_passes(pipeline: Path) -> None:
    file = pipeline.parent / "tests" / "counts.slt"
    code, out, err = run("test", str(file), "--record", str(pipeline), "--transform", "counts", "--rows", "52")
    assert (code, err) == (0, "")
    assert out.startswith(f"wrote {file} with 52 rows\n")
    text = file.read_text(encoding="utf-8")
    assert "pipeline ../pipeline.toml transform counts" in text
    assert "# without 1 that cannot be written here: no JSON object" in text
    assert "late | allowed_lateness_exceeded" in text
    assert run("test", str(file), "--mode", "all")[0] == 0
    (pipeline.parent / "counts.sql").write_text(
        "SELECT window_start, auction, count(*) + 1 AS n FROM bids GROUP BY tumblingwindow('ss', 10), auction"
    )
    assert run("test", str(file))[0] == 1


def test_static_tables_are_recorded_too(pipeline: Path) -> None:
    file = pipeline.parent / "named.slt"
    assert run("test", str(file), "--record", str(pipeline), "--transform", "named")[0] == 0
    assert "table names: id BIGINT, name STRING\n  id | name\n  0  | zero, or none\n" in file.read_text(
        encoding="utf-8"
    )
    assert run("test", str(file))[0] == 0


def test_texts_stay_as_they_are(pipeline: Path) -> None:
    odd = ["10s", " a|b ", "it's", "", "NULL", "2026-01-01T00:00:00.000000Z", "1.50", "#x", "[1]", "*"]
    rows = [{"auction": 1, "price": 1, "ts": 1_767_225_600 + at, "note": text} for at, text in enumerate(odd)]
    (pipeline.parent / "in" / "a.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    pipeline.write_text(PIPELINE.replace("ts BIGINT", "ts BIGINT, note STRING"), encoding="utf-8")
    (pipeline.parent / "counts.sql").write_text(
        "SELECT collect_list(note) AS l FROM bids GROUP BY tumblingwindow('mi', 1)"
    )
    file = pipeline.parent / "odd.slt"
    assert run("test", str(file), "--record", str(pipeline), "--transform", "counts")[0] == 0
    result = CliRunner().invoke(app, ["preview", str(pipeline), "--transform", "counts", "--json"])
    assert json.loads(result.stdout)["transforms"][0]["results_of_open_windows"] == [{"l": odd}]
    assert run("test", str(file))[0] == 0


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["a.slt", "--rows", "5"], "BAD_OPTION"),
        (["a.slt", "--transform", "counts"], "BAD_OPTION"),
        (["a.slt", "--record", "pipeline.toml", "--spark"], "BAD_OPTION"),
        (["a.txt", "--record", "pipeline.toml"], "BAD_OPTION"),
        (["a.slt", "--record", "pipeline.toml"], "MISSING_OPTION"),
        (["there.slt", "--record", "pipeline.toml", "--transform", "counts"], "FILE_EXISTS"),
    ],
)
def test_refusals(pipeline: Path, args: list[str], code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pipeline.parent)
    Path("there.slt").write_text("")
    exit_code, out, err = run("test", *args)
    assert (exit_code, out) == (2, "")
    assert err.startswith(f"[{code}]")
