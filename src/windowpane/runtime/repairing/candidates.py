"""Which side rows a repair can take: those with their original row, whose windows are closed and kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from windowpane.checkpoint.transform import Checkpoint
from windowpane.config import METRICS_ONLY, REINJECT
from windowpane.core import columns as c
from windowpane.errors import ConfigError, nearest
from windowpane.runtime.asking.asked import Asked
from windowpane.runtime.asking.side_files import SideRecord, is_readable, read_delivered

KINDS = ("late", "evicted", "error")
"""Kinds of side rows that a repair takes."""


@dataclass(frozen=True)
class Candidate:
    """A side row with its original row, or why it cannot be repaired."""

    record: SideRecord
    row: dict[str, Any] | None = None
    refused: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"record": self.record.id, "kind": self.record.kind, "refused": self.refused}


def taken_records(checkpoint: Checkpoint) -> set[str]:
    """Ids of the records that were repaired or replayed: none is taken twice."""
    found = {each for repair in checkpoint.repairs.all() for each in repair.records}
    never = _never_replayed(checkpoint)
    replays = [replay for replay in checkpoint.replays.all() if replay.number not in never]
    return found | {each for replay in replays for each in replay.records}


def _never_replayed(checkpoint: Checkpoint) -> set[int]:
    """Replays that still waited when the pipeline ended gracefully: no micro-batch takes them any more."""
    if not checkpoint.is_finished():
        return set()
    ledger = checkpoint.ledger
    last = [entry for entry in map(ledger.read, ledger.batch_ids()[-3:]) if entry is not None]
    return {each.number for each in checkpoint.replays.waiting()} - {n for entry in last for n in entry.replays}


def find_candidates(asked: Asked, sink: str, where: str | None, done: set[str]) -> list[Candidate]:
    """The side rows of a sink, in order. `done`: ids of records that were taken earlier."""
    _check_sink(asked, sink)
    records = [each for each in read_delivered(asked, sink) if each.kind in KINDS and each.id not in done]
    return [_candidate(record) for record in _chosen(records, where)]


def _check_sink(asked: Asked, sink: str) -> None:
    routes = asked.config.transforms[asked.name].side_output.routes()
    known = [route.last for route in routes.values() if route.last not in (METRICS_ONLY, REINJECT)]
    if sink not in known:
        raise ConfigError(
            "UNKNOWN_SINK", f"transform `{asked.name}` routes no side rows to a sink `{sink}`",
            f"--from is one of: {nearest(sink, known)}" if known else "route them to a sink: side_output",
        )  # fmt: skip
    if not is_readable(asked.config.sinks[sink]):
        raise ConfigError(
            "REPAIR_SINK", f"side records in sink `{sink}` ({asked.config.sinks[sink].format}) cannot be read back",
            "sinks that can: files of json or parquet, PostgreSQL, Delta, Iceberg, DuckDB, and Kafka with "
            'delivery = "exactly_once"',
        )  # fmt: skip


def _candidate(record: SideRecord) -> Candidate:
    original = record.content.get("original_event")
    if not isinstance(original, dict):
        return Candidate(record, refused="it has no original row: set include_original on its route")
    if c.CORRUPT in original:
        try:
            original = json.loads(str(original[c.CORRUPT]))
        except ValueError:
            original = None
        if not isinstance(original, dict):
            return Candidate(record, refused="its original row still cannot be read")
    return Candidate(record, original)


def _chosen(records: Sequence[SideRecord], where: str | None) -> list[SideRecord]:
    """Records for which a condition holds."""
    if where is None or not records:
        return list(records)
    rows = [
        {
            "kind": each.kind, "reason": each.reason, "batch_id": each.batch_id, "event_time":
            each.content.get("event_time"), "window_start": (each.content.get("window") or {}).get("start"),
            "window_end": (each.content.get("window") or {}).get("end"), "group_key": json.dumps(dict(each.group)),
            "event": json.dumps(each.content.get("original_event")), "n": number,
        }
        for number, each in enumerate(records)
    ]  # fmt: skip
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("texts", pa.Table.from_pylist(rows, _TEXTS))
    query = f"SELECT n FROM (SELECT {_COLUMNS} FROM texts) WHERE {where} ORDER BY n"
    try:
        found = connection.execute(query).fetchall()
    except duckdb.Error as bad:
        hint = "columns: kind, reason, batch_id, event_time, window_start, window_end, group_key, event (JSON)"
        raise ConfigError("BAD_CONDITION", f"--where cannot be evaluated: {str(bad).splitlines()[0]}", hint) from None
    return [records[int(n)] for (n,) in found]


_TEXTS = pa.schema([
    ("kind", pa.string()), ("reason", pa.string()), ("batch_id", pa.int64()), ("event_time", pa.string()),
    ("window_start", pa.string()), ("window_end", pa.string()), ("group_key", pa.string()), ("event", pa.string()),
    ("n", pa.int64()),
])  # fmt: skip
_COLUMNS = (
    "kind, reason, batch_id, event_time::TIMESTAMPTZ AS event_time, window_start::TIMESTAMPTZ AS window_start, "
    "window_end::TIMESTAMPTZ AS window_end, group_key::JSON AS group_key, event::JSON AS event, n"
)
