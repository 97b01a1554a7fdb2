"""`windowpane why` against planted causes: a partition that stopped, a late row, a group that came late."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.runtime.planted import PIPELINE, at, entry, plant, put_rows, side_record
from windowpane.cli.app import app
from windowpane.runtime.asking.asked import asked_transforms
from windowpane.runtime.asking.window import why_window

STOPPED = [
    entry(0, "12:00:10", "11:59:50", {"bids/bids-0": "11:59:55", "bids/bids-1": "11:59:58"}),
    entry(1, "12:01:10", "12:00:25", {"bids/bids-0": "12:00:30", "bids/bids-1": "12:01:00"}),
    entry(2, "12:02:10", "12:00:25", {"bids/bids-0": "12:00:30", "bids/bids-1": "12:02:00"}),
    entry(3, "12:03:10", "12:00:25", {"bids/bids-0": "12:00:30", "bids/bids-1": "12:03:00"}),
]
"""Partition 0 has had no rows since batch 1."""
GOES_ON = [
    entry(0, "12:00:10", "11:59:50", {"bids/bids-0": "11:59:55"}),
    entry(1, "12:01:10", "12:00:50", {"bids/bids-0": "12:00:55"}, results=3),
    entry(2, "12:02:10", "12:01:50", {"bids/bids-0": "12:01:55"}, results=4),
    entry(3, "12:03:10", "12:02:50", {"bids/bids-0": "12:02:55"}, accounting={"in_": 12, "late": 2}),
]


def ask(file: Path, *arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["why", str(file), *arguments, "--json"])
    assert done.exit_code == 0, done.output
    (answer,) = json.loads(done.output)
    return dict(answer)


def text(answer: dict[str, Any]) -> str:
    return "\n".join(answer["answer"])


def test_a_partition_that_stopped_holds_the_window(tmp_path: Path) -> None:
    found = ask(plant(tmp_path, STOPPED), "--window", "12:00")
    assert found["state"] == "open"
    assert found["window"] == {"start_us": at("12:00:00"), "end_us": at("12:01:00")}
    assert (found["held_by"], found["held_at_us"]) == ("bids/bids-0", at("12:00:30"))
    assert (found["held_since_batch"], found["held_since_us"]) == (1, at("12:01:10"))
    assert found["watermark_without_holder_us"] == at("12:02:55")
    assert "`options.idle_timeout` is not set" in text(found)
    assert "A row at 2026-01-31 12:01:05 or later in `bids/bids-0`" in text(found)
    assert "not running" in text(found)


def test_idle_timeout_releases_it(tmp_path: Path) -> None:
    found = ask(plant(tmp_path, STOPPED, pipeline=PIPELINE % ('idle_timeout = "10m"', "")), "--window", "12:00")
    assert "idle_timeout 10m" in text(found)
    assert "that is enough" in text(found)


def test_a_window_that_came_out(tmp_path: Path) -> None:
    found = ask(plant(tmp_path, GOES_ON), "--window", "12:00:30")
    assert (found["state"], found["batch_id"]) == ("closed", 2)
    assert "That batch gave 4 results" in text(found)


def test_the_present_rate_tells_when_a_window_closes(tmp_path: Path) -> None:
    (asked,) = asked_transforms(plant(tmp_path, GOES_ON), None)
    found = why_window(replace(asked, running=True), "12:02")
    assert found.facts["watermark_rate"] == 1.0
    assert found.facts["eta_us"] == at("12:03:20")
    assert "windowpane drain emits it now" in " ".join(found.lines)


def test_a_stream_without_rows_is_named(tmp_path: Path) -> None:
    two = PIPELINE % ("", "")
    two = two.replace("[options]", """[streams.asks]
format = "json"
path = "asks"
create = true
schema = "auction BIGINT, price BIGINT, ts TIMESTAMP"
eventtime.column = "ts"
[options]""").replace(
        "FROM bids\n", "FROM (SELECT auction, price, ts FROM bids UNION ALL SELECT auction, price, ts FROM asks) AS u\n"
    )  # fmt: skip
    found = ask(plant(tmp_path, [entry(0, "12:00:10", None, {"bids/bids-0": "11:59:55"})], pipeline=two), "--window",
                "12:00")  # fmt: skip
    assert found["unheard_streams"] == ["asks"]
    assert "waits for the first row of `asks`" in text(found)


def test_a_row_that_would_be_late(tmp_path: Path) -> None:
    found = ask(plant(tmp_path, GOES_ON), "--row", '{"auction": 7, "price": 3, "ts": "2026-01-31T12:00:59Z"}')
    (row,) = found["rows"]
    assert (row["fate"], row["time_source"], row["event_us"]) == ("late", "stream_column", at("12:00:59"))
    assert row["missed_by_us"] == at("12:02:50") - at("12:01:00")
    assert row["windows"] == [{"start_us": at("12:00:00"), "end_us": at("12:01:00"), "open": False}]
    assert "`ts`" in text(found)


@pytest.mark.parametrize(
    ("row", "fate"),
    [
        ('{"auction": 7, "price": 3, "ts": "2026-01-31T12:02:00Z"}', "aggregated"),
        ('{"auction": 7, "price": 0, "ts": "2026-01-31T12:02:00Z"}', "filtered"),
        ('{"auction": "x", "price": 3, "ts": "2026-01-31T12:02:00Z"}', "error"),
    ],
)
def test_what_would_become_of_a_row(tmp_path: Path, row: str, fate: str) -> None:
    (found,) = ask(plant(tmp_path, GOES_ON), "--row", row)["rows"]
    assert found["fate"] == fate


def test_a_late_record(tmp_path: Path) -> None:
    """Partition 0 had moved the watermark; a lag of 1m 55s would have kept the row."""
    file = plant(tmp_path, GOES_ON)
    record = side_record("12:00:30", "12:01:50", "12:03:10", ("12:00:00", "12:01:00"))
    put_rows(tmp_path / "late", 3, [record], "hot.side")
    for given in (json.dumps(record), "late:3:1", str(tmp_path / "late" / next((tmp_path / "late").iterdir()).name)):
        found = ask(file, "--late", given)
        assert (found["batch_id"], found["late_in_batch"], found["moved_by"]) == (3, 2, "bids/bids-0")
        assert found["missed_by_us"] == 50_000_000
        assert found["kept_by_lag_us"] == 55_000_001
        assert found["kept_by_allowed_lateness_us"] == 50_000_001
        assert (found["late_in_hour"], found["read_in_hour"]) == (2, 42)


def test_a_group_that_came_late(tmp_path: Path) -> None:
    file = plant(tmp_path, GOES_ON)
    put_rows(tmp_path / "out", 2, [{"window_start": "2026-01-31T12:00:00.000000Z", "auction": 8, "n": 1}])
    put_rows(
        tmp_path / "late", 3, [side_record("12:00:30", "12:01:50", "12:03:10", ("12:00:00", "12:01:00"))], "hot.side"
    )
    found = ask(file, "--group", "auction=7")
    assert (found["results"], found["side_rows"]) == (0, {"late/allowed_lateness_exceeded": 1})
    assert "HAVING" in text(found)
    assert ask(file, "--group", '{"auction": 8}')["results"] == 1
    both = ask(file, "--window", "12:00", "--group", "auction=8")
    assert (both["state"], both["results"]) == ("closed", 1)
    assert ask(file, "--window", "12:01", "--group", "auction=8")["results"] == 0


def test_a_group_that_nobody_knows(tmp_path: Path) -> None:
    found = ask(plant(tmp_path, GOES_ON), "--group", "auction=9")
    assert "it was never in the input" in text(found)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), "MISSING_OPTION"),
        (("--row", "{", "--window", "12:00"), "TOO_MANY_OPTIONS"),
        (("--row", "{"), "BAD_JSON"),
        (("--window", "25:00"), "BAD_INSTANT"),
        (("--window", "noon"), "BAD_INSTANT"),
        (("--group", "bidder=7"), "UNKNOWN_KEY"),
        (("--late", "nowhere"), "NO_SIDE_RECORD"),
        (("--late", "{}"), "NO_SIDE_RECORD"),
        (("--row", "{}", "--stream", "asks"), "UNKNOWN_STREAM"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, arguments: tuple[str, ...], code: str) -> None:
    done = CliRunner().invoke(app, ["why", str(plant(tmp_path, GOES_ON)), *arguments, "--json"])
    assert done.exit_code == 2
    assert json.loads(done.output)["error"]["code"] == code


def test_text_fits_a_terminal(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["why", str(plant(tmp_path, STOPPED)), "--window", "12:00"])
    assert done.output.startswith("hot\n  The window from 2026-01-31 12:00:00 to 2026-01-31 12:01:00 is open.")
    assert max(map(len, done.output.splitlines())) <= 80
