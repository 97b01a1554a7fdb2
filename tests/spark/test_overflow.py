"""Large output of a shard: packed as it is given, in payloads of bounded size, and in a file. No Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from scripts.servers import S3
from tests.spark.staged import Layout, StagedRunner, staged
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.overflow_folder import OverflowFolder
from windowpane.core.accounting import Accounting
from windowpane.core.frames import BatchEnd, Clock, Emissions, Frame
from windowpane.core.graph import Graph
from windowpane.core.operators.base import Operator
from windowpane.core.wire import pack_frames, unpack_frames
from windowpane.remote.access import Access
from windowpane.spark.overflow import MAX_BYTES, MAX_ROWS, OVERFLOW, Outlet, Overflow, Part, in_payloads, parts_in
from windowpane.spark.unpacking import Unpack


def test_small_output_is_in_rows(tmp_path: Path) -> None:
    outlet = Outlet(Overflow(str(tmp_path), limit=10))
    outlet.put("results", b"12345")
    outlet.put("side", b"67890")
    assert outlet.rows() == [("results", b"12345"), ("side", b"67890")]
    assert list(tmp_path.iterdir()) == []


def test_large_output_is_in_a_file_with_what_came_before(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    outlet = Outlet(Overflow(str(tmp_path), limit=10))
    for kind, payload in (("results", b"12345"), ("side", b"678901"), ("results", b"2")):
        outlet.put(kind, payload)
    ((kind, payload),) = outlet.rows()
    assert kind == OVERFLOW
    assert [(kind, part.read().to_pybytes()) for kind, part in parts_in(payload)] == [
        ("results", b"12345"), ("side", b"678901"), ("results", b"2"),
    ]  # fmt: skip
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o640, "as open as the folder"


def test_without_a_folder_everything_is_in_rows() -> None:
    outlet = Outlet(Overflow(None, limit=1))
    outlet.put("results", b"12345")
    assert outlet.rows() == [("results", b"12345")]


@pytest.mark.parametrize("text", ["", "x" * 1000])
def test_payloads_are_bounded(text: str) -> None:
    rows = pa.RecordBatch.from_pydict({"n": np.arange(300_000), "s": pa.array([text] * 300_000)})
    parts = list(in_payloads(rows))
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([rows]))
    assert max(part.num_rows for part in parts) <= MAX_ROWS
    assert max(part.nbytes for part in parts) <= MAX_BYTES * 1.01
    assert len(parts) <= 2 + rows.nbytes // MAX_BYTES + rows.num_rows // MAX_ROWS
    assert list(in_payloads(rows.slice(0, 0))) == []


class Closing(Operator):
    """Gives its results one by one, and knows how many were asked for."""

    asked = 0

    def on_batch_end(self, frame: BatchEnd) -> Iterable[Frame]:
        return self._given(frame)

    def _given(self, frame: BatchEnd) -> Iterator[Frame]:
        for number in range(3):
            self.asked += 1
            yield Emissions(pa.RecordBatch.from_pydict({"n": [number]}))
        yield frame


def test_frames_of_a_generator_flow_one_by_one() -> None:
    closing = Closing()
    graph = Graph.linear([closing, Operator()])
    seen = [
        closing.asked
        for given in graph.flow("in", [Clock(0), BatchEnd()])
        if isinstance(given.frame, Emissions)
    ]  # fmt: skip
    assert seen == [1, 2, 3], "each leaves the graph before the next one is made"


def test_a_shard_puts_a_large_output_into_a_bucket(s3: S3) -> None:
    access = Access.of_spark(s3.settings)
    outlet = Outlet(Overflow(f"s3a://{s3.bucket}/results", limit=10, access=access))
    payloads = [b"first", b"second " * 1000, b"third"]
    for payload in payloads:
        outlet.put("results", payload)
    ((kind, place),) = outlet.rows()
    assert kind == OVERFLOW
    parts = [part for _, part in parts_in(place)]
    assert all(part.path.startswith(f"s3a://{s3.bucket}/results/") for part in parts)
    assert [part.read(access).to_pybytes() for part in parts] == payloads


def test_a_query_whose_results_go_through_files_gives_the_same(tmp_path: Path) -> None:
    sql = "SELECT k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10), k"
    streams = {"s": {"schema": "k BIGINT, ts BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_s"}}}
    rows = [{"k": number, "ts": number % 30} for number in range(100)]
    found = []
    for limit in (1 << 20, 0):
        harness = staged(Layout(2), sql, streams=streams, options={"eventtime.enabled": True, "max_future_skew": "off"})
        runner = harness._runner
        assert isinstance(runner, StagedRunner)
        runner.use_overflow(Overflow(str(tmp_path), limit))
        steps = [harness.push(rows), harness.end()]
        found.append([sorted(map(str, step.rows)) for step in steps])
    assert found[0] == found[1]
    assert len(list(tmp_path.iterdir())) == 4, "one per shard and micro-batch"


class _Elsewhere(FolderStore):
    """A store that only Spark can write to."""

    def spark_path(self, name: str = "") -> str:
        return f"hdfs://namenode/{name}"


def test_the_folder_is_emptied_before_and_after_a_micro_batch(tmp_path: Path) -> None:
    folder = OverflowFolder(FolderStore(tmp_path))
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "of a killed task").touch()
    path = folder.make()
    assert path == str(tmp_path / "results")
    assert list(Path(path).iterdir()) == []
    (tmp_path / "results" / "x").touch()
    folder.clear()
    assert list(Path(path).iterdir()) == []
    assert OverflowFolder(_Elsewhere(tmp_path)).make() is None


def test_results_are_read_from_files_as_from_rows(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"n": [1, 2]})
    payload = pack_frames([Emissions(batch)], Accounting())
    path = tmp_path / "file"
    path.write_bytes(b"before" + payload)
    unpack = Unpack("plan", batch.schema, identify=False)
    places = pa.RecordBatch.from_pylist([{"path": str(path), "offset": 6, "length": len(payload)}])
    assert list(unpack.run_parts(iter([places]))) == [batch]
    assert unpack_frames(Part(str(path), 6, len(payload)).read())[0] == [Emissions(batch)]
