"""Delta and Iceberg tables: a batch that comes again changes nothing, corrections replace, columns can be added."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from windowpane.checkpoint.lease import lease_lost
from windowpane.connectors.read_back import Written
from windowpane.connectors.sinks import SinkBatch
from windowpane.connectors.table_sinks.delta import DeltaSink, partition_values
from windowpane.connectors.table_sinks.duckdb_file import DuckDbSink
from windowpane.connectors.table_sinks.iceberg import IcebergSink, partition_fields
from windowpane.connectors.table_sinks.table_sink import TableSink
from windowpane.errors import ConfigError, SinkError, StateError
from windowpane.remote.access import NO_ACCESS

pytestmark = pytest.mark.slow
MakeSink = Callable[..., TableSink[Any]]


def no_frame() -> Any:
    raise AssertionError("rows are on the driver")


def batch(batch_id: int, rows: pa.Table, *, run: str = "r1", **more: Any) -> SinkBatch:
    return SinkBatch(batch_id, no_frame, transform="q", run=run, rows=rows.num_rows, table=rows, **more)


def emissions(*rows: tuple[str, str, int, bool, int]) -> pa.Table:
    window, group, epoch, final, n = zip(*rows, strict=True)
    return pa.table({
        "n": pa.array(n, pa.int64()), "_window_id": window, "_group_key": group,
        "_emit_epoch": pa.array(epoch, pa.int64()), "_is_final": final,
    })  # fmt: skip


@pytest.fixture(params=["delta", "iceberg", "duckdb"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> MakeSink:
    def make(mode: str | None = None, **options: str) -> TableSink[Any]:
        if request.param == "delta":
            return DeltaSink("out", str(tmp_path / "table"), options, mode)
        if request.param == "duckdb":
            return DuckDbSink("out", str(tmp_path / "results.duckdb"), "hot", mode)
        catalog = {
            "table": "shop.hot", "catalog.type": "sql", "catalog.uri": f"sqlite:///{tmp_path}/catalog.db",
            "catalog.warehouse": f"file://{tmp_path}/warehouse",
        }  # fmt: skip
        return IcebergSink("out", catalog | options, mode)

    return make


def contents(sink: TableSink[Any], *columns: str) -> list[tuple[object, ...]]:
    found = sink._read(None)
    assert found is not None
    return sorted(zip(*(found[column].to_pylist() for column in columns), strict=True), key=str)


def test_a_batch_that_comes_again_changes_nothing(sink: MakeSink) -> None:
    rows = pa.table({"n": [1, 2]})
    for made in (sink(), sink()):  # the second one is another process
        made.write(batch(0, rows))
        made.write(batch(1, pa.table({"n": [3]})))
        made.write(batch(0, rows))
    assert contents(sink(), "n", "_batch") == [
        (1, "q-r1-000000000000"), (2, "q-r1-000000000000"), (3, "q-r1-000000000001")
    ]  # fmt: skip
    sink().write(batch(0, rows, run="r2"))
    assert contents(sink(), "n") == [(1,), (1,), (2,), (2,), (3,)], "another checkpoint counts its batches anew"


def test_corrections_replace_results_of_their_window_and_group(sink: MakeSink) -> None:
    made = sink()
    first = emissions(("w", "{1}", 1, False, 10), ("w", "{1}", 2, False, 11), ("w", "{2}", 1, True, 20))
    made.write(batch(0, first, identified=True))
    made.write(batch(1, emissions(("w", "{1}", 3, True, 12), ("v", "{1}", 1, True, 5)), identified=True))
    made.write(batch(1, emissions(("w", "{1}", 3, True, 99)), identified=True))
    assert contents(made, "_window_id", "_group_key", "n") == [("v", "{1}", 5), ("w", "{1}", 12), ("w", "{2}", 20)]
    other = emissions(("w", "{2}", 1, True, 21), ("u", "{2}", 1, True, 1))
    sink().write(batch(0, other, run="r2", identified=True))
    assert contents(made, "_window_id", "_group_key", "n") == [
        ("u", "{2}", 1), ("v", "{1}", 5), ("w", "{1}", 12), ("w", "{2}", 21)
    ], "the first emission of another run replaces too"  # fmt: skip


def test_append_keeps_the_history(sink: MakeSink) -> None:
    made = sink("append")
    made.write(batch(0, emissions(("w", "{1}", 1, False, 10), ("w", "{1}", 2, False, 11)), identified=True))
    made.write(batch(1, emissions(("w", "{1}", 3, True, 12)), identified=True))
    assert contents(made, "n") == [(10,), (11,), (12,)]


def test_an_interrupted_graceful_end_leaves_nothing(sink: MakeSink) -> None:
    made = sink()
    made.write(batch(0, pa.table({"n": [1]})))
    made.write(batch(1, pa.table({"n": [7, 8]}), final=True))
    made.write(batch(1, pa.table({"n": [2]})))
    made.write(batch(1, pa.table({"n": [2]})))
    assert contents(made, "n") == [(1,), (2,)]


def test_a_query_that_gains_a_column(sink: MakeSink) -> None:
    made = sink()
    made.write(batch(0, pa.table({"n": [1]})))
    made.write(batch(1, pa.table({"n": [2], "top": ["x"]})))
    assert contents(made, "n", "top") == [(1, None), (2, "x")]


def test_a_backfill_replaces_what_the_stream_has_written(sink: MakeSink) -> None:
    made = sink()
    made.write(batch(0, emissions(("w", "{1}", 1, True, 10)), identified=True))
    beside = made.for_backfill("b1", identified=True)
    assert beside is not None
    for value in (11, 12):  # the same backfill again
        rows = emissions(("w", "{1}", 1, True, value))
        beside.write(batch(0, rows, run="b1", identified=True, replaces=True))
    assert contents(made, "n") == [(12,)]
    assert made.for_backfill("b1", identified=False) is None
    assert sink("append").for_backfill("b1", identified=True) is None


def test_side_records(sink: MakeSink) -> None:
    made = sink()
    assert made.side_records(None, Written("q", "r1")) == []  # type: ignore[arg-type]
    made.write(batch(0, pa.table({"value": ['{"kind": "late"}']}), side_records=True))
    made.write(batch(0, pa.table({"value": ['{"kind": "error"}']}), side_records=True, run="r2"))
    assert made.side_records(None, Written("q", "r1")) == ['{"kind": "late"}']  # type: ignore[arg-type]
    assert made.read_side(NO_ACCESS, runs=["r1"], transform="q") == [(0, '{"kind": "late"}')]
    assert len(made.read_side(NO_ACCESS, runs=["r1", "r2"], transform="q")) == 2
    assert made.read_side(NO_ACCESS, runs=["r1"], transform="other") == []


def test_a_process_that_has_lost_its_lease_commits_nothing(sink: MakeSink) -> None:
    made, checks = sink(), []

    def lost() -> None:
        checks.append(1)
        if len(checks) > 1:
            raise lease_lost("of the test")

    made.write(batch(0, pa.table({"n": [1]})))
    with pytest.raises(StateError):
        made.write(batch(1, pa.table({"n": [2]}), check_lease=lost))
    assert contents(made, "n") == [(1,)]


def test_a_value_that_does_not_fit_the_table_is_not_tried_again(sink: MakeSink) -> None:
    made = sink()
    made.write(batch(0, pa.table({"n": [1]})))
    with pytest.raises(SinkError) as refused:
        made.write(batch(1, pa.table({"n": ["text"]})))
    assert (refused.value.code, refused.value.passing) == ("SINK_WRITE", False)


def test_going_back_to_a_savepoint_removes_later_batches(sink: MakeSink) -> None:
    assert sink().take_back(NO_ACCESS, runs=["r1"], transform="q", side=False, after=0) == 0, "no table yet"
    for run in ("r1", "r2"):
        for number in range(3):
            sink().write(batch(number, pa.table({"n": [number, number + 10]}), run=run))
    assert sink().take_back(NO_ACCESS, runs=["r1"], transform="q", side=False, after=0) == 4
    assert sink().take_back(NO_ACCESS, runs=["r1"], transform="q", side=True, after=0) == 0
    assert contents(sink(), "n", "_batch")[:2] == [(0, "q-r1-000000000000"), (0, "q-r2-000000000000")]
    assert len(contents(sink(), "n")) == 8


def test_rows_are_counted_by_batch(sink: MakeSink) -> None:
    assert sink().count_rows(NO_ACCESS, runs=["r1"], transform="q", side=False) == {}, "no table yet"
    for number, rows in enumerate(([1, 2, 3], [4], [])):
        sink().write(batch(number, pa.table({"n": pa.array(rows, pa.int64())})))
    sink().write(batch(1, pa.table({"n": [5]}), run="r2"))
    assert sink().count_rows(NO_ACCESS, runs=["r1"], transform="q", side=False) == {0: 3, 1: 1}
    assert sink().count_rows(NO_ACCESS, runs=["r1", "r2"], transform="q", side=False) == {0: 3, 1: 2}
    assert sink().count_rows(NO_ACCESS, runs=["r1"], transform="q", side=True) == {}


def test_partitions(sink: MakeSink, tmp_path: Path) -> None:
    made = sink(partition_by="day, n")
    if isinstance(made, DuckDbSink):
        return
    made.write(batch(0, pa.table({"day": ["mon", "tue", None], "n": [1, 2, 3]})))
    made.write(batch(1, pa.table({"day": ["mon"], "n": [4]})))
    assert contents(made, "day", "n") == [("mon", 1), ("mon", 4), ("tue", 2), (None, 3)]
    assert {path.parent.parent.name for path in tmp_path.rglob("*.parquet")} >= {"day=mon", "day=tue"}
    with pytest.raises(ConfigError) as unknown:
        made.check(["n"])
    assert (unknown.value.code, unknown.value.key) == ("UNKNOWN_COLUMN", "sinks.out.options.partition_by")


def test_partition_values_as_spark_writes_them() -> None:
    assert partition_values("x/day=2024-05-01%20a/k=__HIVE_DEFAULT_PARTITION__/part-0.parquet") == {
        "day": "2024-05-01 a", "k": None,
    }  # fmt: skip


def test_partition_fields_of_iceberg() -> None:
    assert partition_fields("out", "day(window_start), bucket(16, auction), region") == [
        ("window_start", "day", None), ("auction", "bucket", 16), ("region", "identity", None),
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="day of"):
        partition_fields("out", "day of window")
