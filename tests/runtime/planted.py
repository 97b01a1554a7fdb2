"""A pipeline whose checkpoint was written by hand, so that the cause of a trouble is known. Nothing runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.ledger import Entry, Ledger
from windowpane.checkpoint.plan_record import PlanFile, PlanRecord
from windowpane.config import load_pipeline
from windowpane.plan.pipeline import plan_pipeline
from windowpane.time import parse_instant

RUN = "0a0b0c0d-0000-4000-8000-00000000000a"
PIPELINE = """
[streams.bids]
format = "kafka"
options = { "kafka.bootstrap.servers" = "localhost:1", subscribe = "bids" }
schema = "auction BIGINT, price BIGINT, ts TIMESTAMP"
value_format = "json"
eventtime.column = "ts"
[options]
eventtime.enabled = true
eventtime.late_tolerance = "5s"
shards = 1
%s
[transforms.hot]
sql = '''
SELECT window_start, window_end, auction, count(*) AS n, sum(price) AS total FROM bids
WHERE price > 0 GROUP BY tumblingwindow('mi', 1), auction HAVING count(*) > 0
'''
sink = "out"
%s
[transforms.hot.side_output.late]
sink = "late"
[sinks.out]
format = "json"
path = "out"
[sinks.late]
format = "json"
path = "late"
"""


def at(text: str) -> int:
    """`12:00:30` of the day on which everything happens, in microseconds."""
    return parse_instant(f"2026-01-31T{text}Z", 0)


def entry(batch_id: int, clock: str, watermark: str | None, maxima: dict[str, str], **more: Any) -> Entry:
    """Instants are times of the day. 10 rows a batch, all aggregated, unless `more` says otherwise."""
    counts = {"made": 0, "in_": 10, "aggregated": 10, "filtered": 0, "late": 0, "error": 0, "duplicate": 0}
    counts |= {"evicted": 0, "unmatched": 0, "no_window": 0, "buffered": 0}
    given = counts | more.pop("accounting", {})
    known = {name: at(text) for name, text in maxima.items()}
    held = min(known, key=lambda name: known[name]) if known else None
    return Entry(
        batch_id, at(clock), at(watermark) if watermark else None, given,
        {name: count * (batch_id + 1) for name, count in given.items()}, more.pop("results", 0), maxima=known,
        held_by=held, latest_us=max(known.values(), default=None), open_windows=2, **more,
    )  # fmt: skip


def plant(folder: Path, entries: Sequence[Entry], *, pipeline: str = PIPELINE % ("", "")) -> Path:
    """The pipeline's file. Its ledger has these entries."""
    file = folder / "pipeline.toml"
    file.write_text(pipeline, encoding="utf-8")
    store = FolderStore(folder / "state")
    for plan in plan_pipeline(load_pipeline(file)):
        home = store.below(plan.transform)
        PlanFile(home).create(PlanRecord.of(plan, 1))
        home.replace("spark/metadata", json.dumps({"id": RUN}).encode())
        for each in entries:
            Ledger(home.below("ledger")).write(each)
    return file


def put_rows(folder: Path, batch_id: int, rows: Sequence[dict[str, Any]], whose: str = "hot") -> None:
    """What a batch has written to a sink of JSON files."""
    folder.mkdir(exist_ok=True)
    name = f"part-{whose}-{RUN}-{batch_id:012}-00000.json"
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def side_record(
    event: str, watermark: str, processed: str, window: tuple[str, str] | None, **more: Any
) -> dict[str, Any]:
    def iso(text: str) -> str:
        return f"2026-01-31T{text}.000000Z"

    bounds = None if window is None else {"start": iso(window[0]), "end": iso(window[1])}
    return {
        "kind": "late", "reason": "allowed_lateness_exceeded", "event_time": iso(event), "processing_time":
        iso(processed), "watermark": iso(watermark), "window": bounds, "group_key": {"auction": 7}, "original_event":
        None, "error_detail": None, "plan_id": "x", "shard": 0, "transform": "hot", **more,
    }  # fmt: skip
