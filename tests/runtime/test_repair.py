"""`windowpane repair`, as far as it needs no Spark: corrected windows are those of a run that had lost nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.runtime.planted import RUN, put_rows
from windowpane.checkpoint.closed_windows import ClosedWindows
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.ledger import Entry, Ledger
from windowpane.checkpoint.plan_record import PlanFile, PlanRecord
from windowpane.checkpoint.repairs import RepairRecord, Repairs
from windowpane.cli.app import app
from windowpane.config import load_pipeline
from windowpane.core import columns as c
from windowpane.core.operators.merge_aggregation import MergeAggregation
from windowpane.plan.pipeline import plan_pipeline
from windowpane.runtime.asking.asked import asked_transforms, planned_transforms
from windowpane.runtime.repairing.candidates import find_candidates, taken_records
from windowpane.runtime.repairing.folding import Folded, Folding
from windowpane.testing import Harness

SECOND = 1_000_000
START = 1_700_000_000
SQL = (
    "SELECT window_start, window_end, auction, count(*) AS n, sum(price) AS total, avg(price) AS mean, "
    "max(price) AS top, count(DISTINCT price) AS kinds FROM bids WHERE price > 0 GROUP BY %s, auction"
)
WINDOWS = {"tumbling": "tumblingwindow('ss', 10)", "hopping": "hoppingwindow('ss', 20, 5)",
           "cumulate": "cumulatewindow('ss', 10, 30)"}  # fmt: skip
PIPELINE = """
[streams.bids]
format = "json"
path = "in"
create = true
schema = "auction BIGINT, price BIGINT, ts BIGINT"
eventtime = { column = "ts", type = "unixtimestamp_s" }
[options]
eventtime.enabled = true
[transforms.hot]
sql = "%s"
sink = "out"
keep_closed = "%s"
%s
[transforms.hot.side_output.late]
sink = "dlq"
include_original = true
[sinks.out]
format = "json"
path = "out"
[sinks.dlq]
format = "json"
path = "dlq"
"""


def _rows() -> list[dict[str, int]]:
    random = np.random.default_rng(3)
    arrival = np.sort(random.uniform(0, 120, 600))
    ts = START + arrival - np.where(random.random(600) < 0.2, random.uniform(0, 60, 600), 0)
    return [{"auction": int(k), "price": int(p), "ts": int(t)}
            for k, p, t in zip(random.integers(0, 5, 600), random.integers(1, 9, 600), ts, strict=True)]  # fmt: skip


def _streams() -> dict[str, dict[str, str]]:
    return {"bids": {"schema": "auction BIGINT, price BIGINT, ts BIGINT", "eventtime.column": "ts",
                     "eventtime.type": "unixtimestamp_s"}}  # fmt: skip


def _harness(sql: str, lag: str = "0s") -> Harness:
    options = {"eventtime.enabled": True}
    given = {"watermark_lag": lag, "side_output.late": {"sink": "metrics_only", "include_original": True}}
    return Harness(sql, streams=_streams(), options=options, transform=given, now=(START + 1000) * SECOND)


def _results(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {_key(row): tuple(row[name] for name in ("n", "total", "mean", "top", "kinds"))
            for row in rows}  # fmt: skip


def _key(row: dict[str, Any]) -> tuple[int, int, int]:
    start, end = (int(row[name].timestamp()) * SECOND for name in ("window_start", "window_end"))
    return start, end, row["auction"]


def ran(folder: Path, window: str, *, keep: str = "1d", since: int | None = None) -> dict[tuple[Any, ...], Any]:
    """A pipeline that has lost late rows, with what it has emitted. Its checkpoint is what Spark would leave."""
    sql = SQL % WINDOWS[window]
    file = folder / "pipeline.toml"
    file.write_text(PIPELINE % (sql, keep, ""), encoding="utf-8")
    store = FolderStore(folder / "state").below("hot")
    (plan,) = plan_pipeline(load_pipeline(file))
    PlanFile(store).create(PlanRecord.of(plan, 1))
    store.replace("spark/metadata", json.dumps({"id": RUN}).encode())
    harness, closed, emitted, late = _harness(sql), ClosedWindows(store.below("closed")), dict[Any, Any](), 0
    merging = next(each for each in harness._runner.graph.operators if isinstance(each, MergeAggregation))
    merging.keeps_closed = True
    results = list[Any]()
    run_batch = harness._runner.run_batch

    def keeping(*given: Any, **more: Any) -> Any:
        results.append(run_batch(*given, **more))
        return results[-1]

    harness._runner.run_batch = keeping  # type: ignore[method-assign]
    rows = _rows()
    for batch, first in enumerate(range(0, len(rows), 50)):
        before_us = harness.watermark_us
        step = harness.push(rows[first : first + 50])
        emitted |= _results(step.rows)
        late += step.accounting.late
        if since is None or batch >= since:
            closed.begin(before_us)
            closed.put(batch, list(results[-1].closed))
        put_rows(folder / "dlq", batch, step.side, "hot.side")
        counts = step.accounting.as_dict()
        Ledger(store.below("ledger")).write(
            Entry(
                batch, (START + 1000) * SECOND, harness.watermark_us, counts, {**counts, "late": late}, 0, arrivals=600
            )
        )
    assert late > 20
    return emitted


def _folded(folder: Path) -> Folded:
    (asked,) = asked_transforms(folder / "pipeline.toml", None)
    candidates = find_candidates(asked, "dlq", None, set())
    folded = Folding(asked).fold(candidates, asked.checkpoint.closed, asked.checkpoint.repairs)
    assert not folded.refused
    assert len(folded.taken) == len(candidates) > 20
    return folded


def _place(change: dict[str, Any]) -> tuple[int, int, int]:
    return change["window_start_us"], change["window_end_us"], change["group"]["auction"]


def test_corrected_windows_are_those_of_a_run_that_lost_nothing(tmp_path: Path) -> None:
    emitted = ran(tmp_path, "tumbling")
    whole = _harness(SQL % WINDOWS["tumbling"], "1h")
    wanted = _results([row for first in range(0, 600, 50) for row in whole.push(_rows()[first : first + 50]).rows])
    wanted |= _results(whole.end().rows)
    changes = {_place(each): each for each in _folded(tmp_path).changes}
    for place, each in changes.items():
        assert tuple(each["after"].values()) == wanted[place], place
        before = emitted.get(place)
        assert each["emit_epoch"] == (1 if before is None else 2)
        assert before == (None if each["before"] is None else tuple(each["before"].values()))
    assert all(emitted[place] == wanted[place] for place in emitted if place not in changes)


@pytest.mark.parametrize("window", ["hopping", "cumulate"])
def test_a_late_row_counts_in_all_its_windows(tmp_path: Path, window: str) -> None:
    """Rows that missed some of their windows were never late, so a repair does not know of them."""
    emitted = ran(tmp_path, window)
    folded = _folded(tmp_path)
    late = [each.row for each in folded.taken if each.row is not None]
    for each in folded.changes:
        start_us, end_us, auction = _place(each)
        inside = [row["price"] for row in late
                  if row["auction"] == auction and start_us <= row["ts"] * SECOND < end_us]  # fmt: skip
        n, total, *_ = emitted.get(_place(each), (0, 0))
        assert inside
        assert (each["after"]["n"], each["after"]["total"]) == (n + len(inside), total + sum(inside))


def test_aggregates_in_computed_columns_have_names_for_people(tmp_path: Path) -> None:
    sql = "SELECT window_start, round(avg(price), 1) AS mean FROM bids GROUP BY tumblingwindow('ss', 10), auction"
    (tmp_path / "pipeline.toml").write_text(PIPELINE % (sql, "1d", ""), encoding="utf-8")
    (asked,) = planned_transforms(tmp_path / "pipeline.toml", None)
    folding = Folding(asked)
    emitted = folding._merging.output_schema(pa.schema([])).names
    assert list(folding._labels(emitted).values()) == ["avg in mean"]


def test_a_second_repair_goes_on_from_the_first(tmp_path: Path) -> None:
    """Rows are repaired once, and epochs count up."""
    ran(tmp_path, "tumbling")
    (asked,) = asked_transforms(tmp_path / "pipeline.toml", None)
    everything = find_candidates(asked, "dlq", None, set())
    whole = Folding(asked).fold(everything, asked.checkpoint.closed, asked.checkpoint.repairs)
    repairs = asked.checkpoint.repairs
    half = everything[: len(everything) // 2]
    first = Folding(asked).fold(half, asked.checkpoint.closed, repairs)
    ids = [each.record.id for each in first.taken]
    repairs.begin(RepairRecord(0, "begun", 1, {"late": len(ids)}, ids, 1, 1), first.states, first.emissions)
    rest = find_candidates(asked, "dlq", None, set(ids))
    assert len(rest) + len(ids) == len(everything)
    second = Folding(asked).fold(rest, asked.checkpoint.closed, repairs)

    def final(*folds: Any) -> dict[Any, Any]:
        found = [each for folded in folds for each in folded.changes]
        return {(each["window_start_us"], each["group"]["auction"]): tuple(each["after"].values()) for each in found}

    assert final(first, second) == final(whole)
    assert max(each["emit_epoch"] for each in second.changes) == 3
    assert repairs.repaired() == {"late": len(ids)}


def run(folder: Path, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["repair", str(folder / "pipeline.toml"), "--json", *arguments])


def test_a_dry_run_shows_windows_before_and_after(tmp_path: Path) -> None:
    ran(tmp_path, "tumbling")
    done = run(tmp_path, "--from", "dlq", "--dry-run", "--where", "(event->>'auction')::INT = 3 AND kind = 'late'")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert {each["group"]["auction"] for each in found["changes"]} == {3}
    assert all(each["before"] is None or each["after"]["n"] > each["before"]["n"] for each in found["changes"])
    assert not (tmp_path / "state" / "hot" / "repairs").exists()
    text = CliRunner().invoke(app, ["repair", str(tmp_path / "pipeline.toml"), "--from", "dlq", "--dry-run"]).output
    assert "would repair" in text
    assert "→" in text


def test_what_cannot_be_repaired_is_said_row_by_row(tmp_path: Path) -> None:
    ran(tmp_path, "tumbling", keep="30s", since=6)
    put_rows(tmp_path / "dlq", 20, [
        {"kind": "late", "reason": "x", "original_event": None},
        {"kind": "error", "reason": "decode_error", "original_event": {"_corrupt_record": "{"}},
        {"kind": "error", "reason": "decode_error", "original_event": {"_corrupt_record":
         json.dumps({"auction": 1, "price": 0, "ts": START + 115})}},
        {"kind": "late", "reason": "x", "original_event": {"auction": 1, "price": 3, "ts": START + 500}},
    ], "hot.side")  # fmt: skip
    found = json.loads(run(tmp_path, "--from", "dlq", "--dry-run").output)
    reasons = {each["refused"].partition(" up to ")[0] for each in found["refused"]}
    assert reasons == {
        "its window", "it has no original row: set include_original on its route", "WHERE excludes it",
        "its original row still cannot be read",
    }  # fmt: skip
    texts = " ".join(each["refused"] for each in found["refused"])
    assert "closed before windows were kept" in texts
    assert "is still open" in texts


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--from", "nowhere", "--dry-run"), "UNKNOWN_SINK"),
        (("--from", "dlq", "--dry-run", "--where", "price >"), "BAD_CONDITION"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, arguments: tuple[str, ...], code: str) -> None:
    ran(tmp_path, "tumbling")
    assert json.loads(run(tmp_path, *arguments).output)["error"]["code"] == code


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT auction, count(*) AS n FROM bids GROUP BY sessionwindow('ss', 5), auction", "session windows"),
        ("SELECT auction, count(*) AS n FROM bids GROUP BY countwindow(5), auction", "count windows"),
        ("SELECT auction FROM bids WINDOW TUMBLING (SIZE 5 SECONDS)", "no aggregates"),
    ],
)
def test_plans_that_cannot_keep_windows_are_refused(tmp_path: Path, sql: str, why: str) -> None:
    (tmp_path / "pipeline.toml").write_text(PIPELINE % (sql, "1d", ""), encoding="utf-8")
    done = CliRunner().invoke(app, ["check", str(tmp_path / "pipeline.toml"), "--json"])
    error = json.loads(done.output)["error"]
    assert error["code"] == "UNSUPPORTED_KEEP_CLOSED"
    assert why in error["message"]


def test_rows_of_a_query_that_cannot_be_repaired_are_refused_one_by_one(tmp_path: Path) -> None:
    sql = "SELECT auction, count(*) AS n FROM bids GROUP BY countwindow(5), auction"
    text = (PIPELINE % (sql, "1d", "")).replace('keep_closed = "1d"', "")
    (tmp_path / "pipeline.toml").write_text(text, encoding="utf-8")
    store = FolderStore(tmp_path / "state").below("hot")
    (plan,) = plan_pipeline(load_pipeline(tmp_path / "pipeline.toml"))
    PlanFile(store).create(PlanRecord.of(plan, 1))
    store.replace("spark/metadata", json.dumps({"id": RUN}).encode())
    late = {"kind": "late", "reason": "behind_watermark", "original_event": {"auction": 1, "price": 3, "ts": START}}
    put_rows(tmp_path / "dlq", 0, [late, late], "hot.side")
    found = json.loads(run(tmp_path, "--from", "dlq", "--dry-run").stdout)
    assert [each["record"] for each in found["refused"]] == ["dlq:0:1", "dlq:0:2"]
    assert "count windows, which time alone does not define" in found["refused"][0]["refused"]
    text = CliRunner().invoke(app, ["repair", str(tmp_path / "pipeline.toml"), "--from", "dlq", "--dry-run"]).stdout
    assert "hot: nothing to repair\n  not repaired, 2 rows: no window of this query can be repaired" in text


def test_rows_whose_windows_are_open_are_replayed_and_others_refused(tmp_path: Path) -> None:
    """A replay waits for a micro-batch that nobody has planned yet, and takes no record twice."""
    ran(tmp_path, "tumbling")
    rows = [{"auction": 1, "price": price, "ts": START + at} for price, at in ((3, 119), (4, 119), (5, 20), (0, 119))]
    put_rows(tmp_path / "dlq", 20, [
        {"kind": "error", "reason": "decode_error", "original_event": {"_corrupt_record": json.dumps(row)}}
        for row in rows
    ], "hot.side")  # fmt: skip

    def replay(*more: str) -> Any:
        given = ["replay", str(tmp_path / "pipeline.toml"), "--from", "dlq", "--where", "kind = 'error'", *more]
        return CliRunner().invoke(app, given)

    assert "would replay 2 error rows" in replay("--dry-run").stdout
    done = json.loads(replay("--json").stdout)
    assert (done["replay"], done["replayed"], done["after_batch"]) == (0, {"error": 2}, -1)
    reasons = sorted(each["refused"].partition(",")[0] for each in done["refused"])
    assert reasons == ["WHERE excludes it", "its windows are closed"]
    (asked,) = asked_transforms(tmp_path / "pipeline.toml", None)
    (waiting,) = asked.checkpoint.replays.waiting()
    assert waiting.rows == rows[:2]
    assert "nothing to replay" in replay().stdout, "no record is taken twice"
    left = find_candidates(asked, "dlq", "kind = 'error'", taken_records(asked.checkpoint))
    assert [each.record.line for each in left] == [3, 4]
    asked.checkpoint.replays.finish(0)
    asked.checkpoint.replays.finish(0)
    assert (asked.checkpoint.replays.waiting(), asked.checkpoint.replays.kinds()) == ([], {"error": 2})


def test_side_records_of_parquet_files_are_read(tmp_path: Path) -> None:
    ran(tmp_path, "tumbling")
    file = tmp_path / "pipeline.toml"
    for part in list((tmp_path / "dlq").iterdir()):
        pq.write_table(pa.table({"value": part.read_text().splitlines()}), part.with_suffix(".parquet"))
        part.unlink()
    text = file.read_text().replace('[sinks.dlq]\nformat = "json"', '[sinks.dlq]\nformat = "parquet"')
    file.write_text(text, encoding="utf-8")
    _folded(tmp_path)


def test_closed_windows_expire(tmp_path: Path) -> None:
    closed = ClosedWindows(FolderStore(tmp_path))
    for batch in range(5):
        end = pa.array([batch * 10], pa.int64())
        closed.put(batch, [pa.RecordBatch.from_arrays([end, end], [c.WINDOW_KEY, c.WINDOW_END])])
    closed.expire(20)
    assert [table.column(c.WINDOW_END).to_pylist() for table in closed.read()] == [[20], [30], [40]]


def test_inspect_moves_repaired_rows(tmp_path: Path) -> None:
    ran(tmp_path, "tumbling")
    repairs, none = Repairs(FolderStore(tmp_path / "state" / "hot" / "repairs")), pa.table({"x": [1]})
    repairs.begin(RepairRecord(0, "begun", 1, {"late": 5}, ["a"] * 5, 1, 1), none, none)
    done = CliRunner().invoke(app, ["inspect", str(tmp_path / "state"), "--no-state", "--json"])
    totals = json.loads(done.output)["hot"]["totals"]
    (asked,) = asked_transforms(tmp_path / "pipeline.toml", None)
    assert asked.last is not None
    assert (totals["late"], totals["repaired"]) == (asked.last.totals["late"] - 5, 5)
