"""Arrival numbers from the fold stage to the merge stage, beyond the bounds that batches and tasks once had."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext

from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.ledger import Entry, Ledger
from windowpane.core import columns as c
from windowpane.core.accounting import Accounting
from windowpane.core.frames import Emissions, Rows
from windowpane.core.numbering import NOWHERE, Place
from windowpane.core.state import EntryMap
from windowpane.core.wire import unpack_frames
from windowpane.scan.file_boundaries import by_place
from windowpane.spark.batch_context import PROPERTY, BatchContext
from windowpane.spark.fold import CLOCK
from windowpane.spark.fold_stage import FoldStage
from windowpane.spark.job_stages import JobStages
from windowpane.spark.merge_stage import RESULTS, Shard
from windowpane.spark.splitting import split_stages
from windowpane.spark.stages import Stages
from windowpane.testing import Harness

OLD_BATCHES, OLD_TASKS = 1 << 23, 1 << 12
STREAMS = {"s": {"schema": "ts BIGINT, v BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}}
SQL = "SELECT first(v) AS a, last(v) AS z, collect_list(v) AS all FROM s GROUP BY tumblingwindow('ss', 10)"
PLAIN = "SELECT v FROM s"


def cut(sql: str, *, feedback: bool) -> tuple[Harness, Stages]:
    harness = Harness(sql, streams=STREAMS, options={"eventtime.enabled": True}, now=0)
    empty = harness._inputs.schema(harness._pushed([], "s", "0"))
    stages, _ = split_stages(harness.plan, empty, shards=1, feedback=feedback)
    return harness, replace(stages, time_source="config_field")  # the harness does not say so for each row


def sent(context: TaskContext, sql: str, batch_id: int, first: int | None, tasks: dict[int, list[int]]) -> list[bytes]:
    """What tasks send to shard 0. `first`: what the host tells them, None where no host does."""
    harness, stages = cut(sql, feedback=first is not None)
    payloads = []
    for task, values in tasks.items():
        context._partitionId = task
        context_text = BatchContext(batch_id, 5, {"": [None, first or 0]}).as_property()
        context._localProperties = {"streaming.sql.batchId": str(batch_id), PROPERTY: context_text}
        rows = harness._inputs.rows(harness._pushed([{"ts": 1000, "v": value} for value in values], "s", "0"))
        rows = rows.append_column(CLOCK, pa.array([5] * rows.num_rows, pa.int64()))
        (batch,) = FoldStage(JobStages.alone(stages), (0,)).run(iter([rows]))
        payloads += batch.column("payload").to_pylist()
    return payloads


def numbers(sql: str, payloads: list[bytes], *, feedback: bool) -> list[int]:
    received = Shard(cut(sql, feedback=feedback)[1], EntryMap({}))._received(payloads)
    frames = [given.frame for given in received]
    return [number for each in frames if isinstance(each, Rows) for number in each.batch.column(c.ARRIVAL).to_pylist()]


@pytest.mark.parametrize("batch_id", [0, OLD_BATCHES - 1, OLD_BATCHES, 1 << 29])
def test_rows_are_numbered_without_gaps_in_any_batch_and_task(context: TaskContext, batch_id: int) -> None:
    tasks = {0: [1, 2], OLD_TASKS - 1: [3], OLD_TASKS: [4, 5], 3 * OLD_TASKS: [6]}
    for first in (17, None):
        start = (1 << 62) + (batch_id << 32) if first is None else first
        for _replayed in (False, True):
            payloads = sent(context, PLAIN, batch_id, first, tasks)
            assert numbers(PLAIN, payloads, feedback=first is not None) == list(range(start, start + 6))


def test_rows_folded_by_tasks_stand_in_the_order_of_tasks_and_after_older_state(context: TaskContext) -> None:
    _, stages = cut(SQL, feedback=True)
    entries = EntryMap({})
    old = sent(context, SQL, 6, 6 << 40, {0: [1], 4000: [2]})
    new = sent(context, SQL, 7, Entry.next_arrival(None, 7), {0: [3], OLD_TASKS: [4, 5], OLD_TASKS + 1: [6]})
    for payloads in (old, new):
        Shard(stages, entries).take(payloads)
        entries = EntryMap(entries.merged())
    last = Shard(stages, entries)
    last.end(9)
    (frame,) = [unpack_frames(payload)[0][0] for kind, payload in last.outputs() if kind == RESULTS]
    assert isinstance(frame, Emissions)
    emitted = frame.batch
    assert [emitted.column(f"_a{index}")[0].as_py() for index in range(3)] == [1, 6, [1, 2, 3, 4, 5, 6]]


def test_numbers_go_on_from_the_ledger_and_above_those_of_earlier_versions(tmp_path: Path) -> None:
    counts = Accounting().as_dict()
    entry = Entry(6, clock_us=0, watermark_us=None, accounting=counts, totals=counts, results=0, arrivals=41)
    ledger = Ledger(FolderStore(tmp_path))
    ledger.write(entry)
    assert Entry.next_arrival(ledger.read(6), 7) == 41
    path = Path(ledger.address(6))
    written = json.loads(path.read_text())
    del written["arrivals"]
    path.write_text(json.dumps(written))
    older = ledger.read(6)
    assert older == replace(entry, arrivals=None)
    assert Entry.next_arrival(older, 7) == 7 << 40


def test_rows_are_cut_where_their_file_changes_and_those_of_no_file_stay_together() -> None:
    paths = ["file:///d/a%20b", "file:///d/a%20b", "file:///d/c", None, None, "file:///d/c"]
    starts = pa.array([0, 9, 0, None, None, 0], pa.int64())
    times = pa.array([5, 5, 6, None, None, 6], pa.int64())
    columns = {"v": pa.array(range(6)), c.FILE: pa.array(paths), c.FILE_TIME: times, c.FILE_START: starts}
    parts = list(by_place(iter([pa.RecordBatch.from_pydict(columns)])))
    assert [part.rows.to_pydict() for part in parts] == [{"v": [0]}, {"v": [1]}, {"v": [2]}, {"v": [3, 4]}, {"v": [5]}]
    first, later = Place.of_file(5, "/d/a b"), Place.of_file(6, "/d/c")
    assert [part.place for part in parts] == [first, Place.of_file(5, "/d/a b", 9), later, NOWHERE, later]
    empty = pa.RecordBatch.from_pydict({name: column.slice(0, 0) for name, column in columns.items()})
    assert not list(by_place(iter([empty])))


def test_only_queries_in_which_order_matters_number_rows_by_file() -> None:
    folded = "SELECT sum(v) AS s, max(v) AS m FROM s GROUP BY tumblingwindow('ss', 10)"
    for feedback in (True, False):
        assert [cut(sql, feedback=feedback)[1].ordered for sql in (SQL, PLAIN, folded)] == [True, True, False]
