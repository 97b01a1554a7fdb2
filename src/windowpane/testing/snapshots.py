"""Snapshots of a harness: the state entries that Spark would store, and what the harness itself remembers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from windowpane.core import blob
from windowpane.core.metadata import decode_record, encode_record
from windowpane.errors import StateError


@dataclass(frozen=True)
class Remembered:
    """What a snapshot has besides the state of the operators."""

    plan_id: str
    clock_us: int
    arrivals: int
    finished: bool
    time_sources: dict[str, int]


def pack_snapshot(remembered: Remembered, entries: Mapping[str, bytes]) -> bytes:
    """Both in one blob."""
    table = pa.RecordBatch.from_arrays(
        [pa.array(entries.keys(), pa.string()), pa.array(entries.values(), pa.large_binary())], ["entry", "data"]
    )
    return blob.pack(blob.State(encode_record(remembered), {"entries": table}))


def unpack_snapshot(data: bytes, plan_id: str) -> tuple[Remembered, dict[str, bytes]]:
    """What `pack_snapshot` was given; StateError if the snapshot is of another query."""
    state = blob.unpack(data)
    remembered = decode_record(Remembered, state.meta)
    if remembered.plan_id != plan_id:
        raise StateError(
            "STATE_OTHER_QUERY",
            f"the snapshot is of plan {remembered.plan_id}, this query is plan {plan_id}",
            "restore with the query of the snapshot",
        )
    names, contents = (column.to_pylist() for column in state.batches["entries"].columns)
    return remembered, dict(zip(names, contents, strict=True))
