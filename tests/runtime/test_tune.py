"""`windowpane tune`: what it predicts is what a run gives; wrong clocks and bursts of late rows are found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.runtime.planted import PIPELINE, entry, plant
from windowpane.cli.app import app
from windowpane.core.lateness import BOUNDS_US
from windowpane.testing import Harness

SECOND = 1_000_000
SAMPLED = """
[streams.bids]
format = "json"
path = "in"
create = true
schema = "auction BIGINT, ts BIGINT"
eventtime = { column = "ts", type = "unixtimestamp_ms" }
[options]
eventtime.enabled = true
[transforms.hot]
sql = "%s"
sink = "out"
watermark_lag = "%s"
[sinks.out]
format = "json"
path = "out"
"""
TUMBLING = "SELECT auction, count(*) AS n FROM bids WHERE auction <> 3 GROUP BY tumblingwindow('ss', 5), auction"
SESSIONS = "SELECT auction, count(*) AS n FROM bids GROUP BY sessionwindow('ss', 2), auction"


def tune(file: Path, *arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["tune", str(file), *arguments, "--json"])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.output)
    return dict(found)


def rows(count: int = 3000) -> list[dict[str, int]]:
    """In order of arrival. Most come within seconds; a burst of 100 comes 40 s late."""
    random = np.random.default_rng(7)
    arrival = np.sort(random.uniform(0, 100, count))
    delay = random.exponential(1.5, count)
    delay[2000:2100] += 40
    ts = ((1_700_000_000 + arrival - delay) * 1000).astype(np.int64)
    return [{"auction": int(k), "ts": int(each)} for k, each in zip(random.integers(0, 8, count), ts, strict=True)]


def sampled(folder: Path, sql: str = TUMBLING, lag: str = "2s") -> tuple[Path, str]:
    file, sample = folder / "pipeline.toml", folder / "sample.jsonl"
    file.write_text(SAMPLED % (sql, lag), encoding="utf-8")
    sample.write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
    return file, str(sample)


def late_in_a_run(lag: str) -> int:
    streams = {"bids": {"schema": "auction BIGINT, ts BIGINT", "eventtime.column": "ts",
                        "eventtime.type": "unixtimestamp_ms"}}  # fmt: skip
    harness = Harness(TUMBLING, streams=streams, options={"eventtime.enabled": True}, transform={"watermark_lag": lag})
    given = rows()
    return sum(harness.push(given[first : first + 200]).accounting.late for first in range(0, len(given), 200))


def test_the_share_of_a_sample_is_that_of_a_run(tmp_path: Path) -> None:
    """Exactly at the lags that are shown."""
    file, sample = sampled(tmp_path)
    found = tune(file, "--sample", sample, "--batch-rows", "200")
    assert found["rows"] == sum(row["auction"] != 3 for row in rows())
    predicted = {each["lag_us"]: each["late_rows"] for each in found["lags"]}
    assert predicted[0] > predicted[2 * SECOND] > predicted[10 * SECOND] > 50
    for lag_us in (0, 2 * SECOND, 10 * SECOND, found["recommended_lag_us"], found["loses_nothing_us"]):
        assert predicted[lag_us] == late_in_a_run(f"{lag_us // 1000}ms"), lag_us
    assert found["lags"][-1]["late_rows"] == 0


def test_the_recommended_lag_loses_what_is_accepted(tmp_path: Path) -> None:
    file, sample = sampled(tmp_path)
    for loss in ("10%", "0.02", "0"):
        found = tune(file, "--sample", sample, "--batch-rows", "200", "--loss", loss)
        chosen = next(each for each in found["lags"] if each["is_recommended"])
        assert chosen["share"] <= found["loss"]
        shorter = [each for each in found["lags"] if each["lag_us"] < chosen["lag_us"]]
        assert all(each["share"] > found["loss"] for each in shorter)


def test_gaps_of_sessions(tmp_path: Path) -> None:
    file, sample = sampled(tmp_path, SESSIONS)
    found = tune(file, "--sample", sample)
    by_gap = {each["gap_us"]: each["sessions"] for each in found["gaps"]}
    times: dict[int, list[int]] = {}
    for row in rows():
        times.setdefault(row["auction"], []).append(row["ts"])
    wanted = sum(1 + int((np.diff(sorted(each)) >= 1000).sum()) for each in times.values())
    assert by_gap[SECOND] == wanted
    assert by_gap[500_000] > wanted > by_gap[4 * SECOND]


def _bucket(us: int) -> int:
    return int(np.searchsorted(BOUNDS_US, us, "right")) - 1


def _ledger() -> list[Any]:
    """Partition 2 has a clock that is one hour ahead, partition 1 has had no rows for ten batches. 5 of 100 rows are
    20 s behind.
    """
    found = []
    for batch in range(20):
        silent = min(batch, 9)
        maxima = {"bids/bids-0": f"12:{batch:02}:30", "bids/bids-1": f"12:{silent:02}:20",
                  "bids/bids-2": f"13:{batch:02}:30", "bids/bids-3": f"12:{batch:02}:29"}  # fmt: skip
        lateness = {name: f"25 {_bucket(20 * SECOND)}:{5 if name == 'bids/bids-0' else 0}" for name in maxima}
        size = 1000 * (batch + 1)
        one = entry(batch, f"12:{batch:02}:40", "11:59:50", maxima, accounting={"in_": size, "aggregated": size},
                    lateness=lateness, seconds=0.5 + size / 100_000, shuffled=[[10 * size, size]])  # fmt: skip
        found.append(replace(one))
    return found


def test_what_the_ledger_tells(tmp_path: Path) -> None:
    found = tune(plant(tmp_path, _ledger()))
    assert found["rows"] == 2000
    by_lag = {each["lag_us"]: each["late_rows"] for each in found["lags"]}
    assert by_lag[5 * SECOND] == 100
    assert by_lag[found["loses_nothing_us"]] == 0
    flags = {each["partition"]: each["flag"] for each in found["partitions"]}
    assert flags["bids/bids-2"] == "its clock is 1h 1s ahead of the others"
    assert flags["bids/bids-1"] == "no rows since 2026-01-31 12:09:40"
    assert flags["bids/bids-0"] is flags["bids/bids-3"] is None
    shares = {each["partition"]: each["share"] for each in found["partitions"]}
    assert (shares["bids/bids-0"], shares["bids/bids-3"]) == (0.2, 0)
    assert found["batches"]["fixed_seconds"] == pytest.approx(0.5)
    assert found["batches"]["seconds_per_million"] == pytest.approx(10)
    assert found["batches"]["recommended_rows"] == 200_000
    assert found["shards"]["skew"] == pytest.approx(1.82, abs=0.01)


def test_tables_and_picture(tmp_path: Path) -> None:
    file, picture = plant(tmp_path, _ledger()), tmp_path / "lags.svg"
    done = CliRunner().invoke(app, ["tune", str(file), "--picture", str(picture)], env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    assert "for at most 0.10% late rows: a lag of 21s (now 5s)" in done.output
    assert "ahead of the others" in done.output
    svg = ET.parse(picture).getroot()
    assert len(svg.findall("{http://www.w3.org/2000/svg}polyline")) == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--picture", "lags.png"), "PICTURE_FORMAT"),
        (("--loss", "much"), "BAD_SHARE"),
        (("--sample", "a.json", "--from-ledger"), "TOO_MANY_OPTIONS"),
        (("--sample", "a.avro"), "SAMPLE_FORMAT"),
        (("--sample", "a.json"), "PATH_NOT_FOUND"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, arguments: tuple[str, ...], code: str) -> None:
    done = CliRunner().invoke(app, ["tune", str(plant(tmp_path, _ledger()[:1])), *arguments, "--json"])
    assert done.exit_code == 2
    assert json.loads(done.output)["error"]["code"] == code


def test_a_ledger_of_an_earlier_version_has_no_sketch(tmp_path: Path) -> None:
    old = [replace(each, lateness={}) for each in _ledger()]
    done = CliRunner().invoke(app, ["tune", str(plant(tmp_path, old, pipeline=PIPELINE % ("", ""))), "--json"])
    assert json.loads(done.output)["error"]["code"] == "NO_SKETCH"
