"""What docs/architecture.md says of extending windowpane, shown by a plugin in `tests/toys` that changes no file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import windowpane
from tests.spark.staged import Layout, staged
from tests.toys.aggregate import Product
from tests.toys.codec import PAIRS
from tests.toys.sink import TOY, ToySink
from tests.toys.window import Alternating
from windowpane import Harness
from windowpane.config import parse_pipeline
from windowpane.connectors.sinks import SinkBatch
from windowpane.core import columns as c
from windowpane.core.accumulators import registry as aggregates
from windowpane.core.windows import KINDS, register
from windowpane.errors import ConfigError, PlanError
from windowpane.formats import CODECS, SINKS
from windowpane.plan.pipeline import plan_pipeline
from windowpane.runtime.routes import build_sink
from windowpane.scan.message_columns import PARTITION, VALUE
from windowpane.spark.job_inputs import worker_scan

SRC = Path(windowpane.__file__).parent
STREAMS = {"s": {"schema": "ts BIGINT, k STRING, v BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_s"}}}
ROWS = [{"ts": ts, "k": "a", "v": v} for ts, v in ((1, 2), (12, 3), (25, 5), (31, 7))]
GOALS = {
    "an aggregate": 2,
    "a window kind": 6,
    "a codec for message values": 3,
    "a sink with exactly-once delivery": 3,
    "a kind of side rows": 4,
}


@pytest.fixture(autouse=True)
def plugin() -> Iterator[None]:
    windowpane.register_aggregate(Product)
    register(Alternating)
    CODECS.register(PAIRS)
    SINKS.register(TOY)
    yield
    del aggregates._functions["product"]
    del KINDS["alternating"]
    CODECS.unregister("pairs")
    SINKS.unregister("toy")


def results(query: str) -> list[tuple[object, ...]]:
    """The same in one piece and in the two stages of a Spark query, pickled and over the wire."""
    settings: dict[str, Any] = {"streams": STREAMS, "options": {"eventtime.enabled": True}, "now": 0}
    found = []
    for harness in (Harness(query, **settings), staged(Layout(shards=1), query, **settings)):
        steps = [harness.push(ROWS[:2]), harness.push(ROWS[2:]), harness.end()]
        found.append([tuple(row.values()) for step in steps for row in step.rows])
    assert found[0] == found[1]
    return found[0]


def test_an_aggregate() -> None:
    query = "SELECT product(v) AS p, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 30)"
    assert results(query) == [(30, 3), (7, 1)]


ALTERNATING = "WINDOW ALTERNATING (WORK '10s', PAUSE '20s')"


@pytest.mark.parametrize("window", ["GROUP BY alternatingwindow('ss', 10, 20)", ALTERNATING])
def test_a_window_kind(window: str) -> None:
    query = f"SELECT sum(v) AS s, unix_micros(window_end) DIV 1000000 AS e FROM s {window}"
    assert results(query) == [(2, 10), (8, 30), (7, 40)]


def test_a_window_kind_without_aggregates_and_with_a_late_row() -> None:
    query = f"SELECT v FROM s {ALTERNATING}"
    assert sorted(results(query)) == [(2,), (3,), (5,), (7,)]
    harness = Harness(query, streams=STREAMS, options={"eventtime.enabled": True}, now=0)
    harness.push([{"ts": 35, "v": 1}])
    assert [row["kind"] for row in harness.push([{"ts": 29, "v": 1}, {"ts": 31, "v": 1}]).side] == ["late"]


def pipeline(folder: Path, **stream: object) -> windowpane.config.PipelineConfig:
    kafka = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "separator": ","}
    time = {"column": "ts", "type": "unixtimestamp_s", "strict": True}
    declared = STREAMS["s"] | {"format": "kafka", "value_format": "pairs", "options": kafka, "eventtime": time}
    settings = {
        "streams": {"s": declared | stream},
        "options": {"eventtime.enabled": True},
        "transforms": {"t": {"sql": "SELECT sum(v) AS s FROM s GROUP BY k, tumblingwindow('ss', 30)", "sink": "out"}},
        "sinks": {"out": {"format": "toy", "path": "results", "options": {"folder": "of-t"}}},
    }
    return parse_pipeline(settings, folder)


def test_a_codec(tmp_path: Path) -> None:
    (plan,) = plan_pipeline(pipeline(tmp_path))
    assert plan.scan is not None
    values = [b"ts=1,k=a,v=2", b"ts=1,k=a,v=many", None, b"x" * (1 << 25)]
    handed = {VALUE: pa.array(values, pa.binary()), PARTITION: pa.array([0] * len(values), pa.int32())}
    (scanned,) = worker_scan(plan.scan.streams[0]).read(iter([pa.RecordBatch.from_pydict(handed)]), 0)
    assert scanned.rows.column(c.EVENT_TIME).to_pylist() == [1_000_000, None, None, None]
    assert scanned.rows.column(c.ERROR).to_pylist() == [None, "decode_error", "decode_error", "decode_error"]
    with pytest.raises(ConfigError, match="Spark does not decode PAIRS values"):
        pipeline(tmp_path, scan="spark")
    with pytest.raises(PlanError, match="has PAIRS values, which Spark does not decode"):
        plan_pipeline(pipeline(tmp_path, schema="ts BIGINT, k STRING, v DOUBLE"))


def test_a_sink(tmp_path: Path) -> None:
    config = pipeline(tmp_path)
    sink = build_sink(config, "out", config.sinks["out"])
    assert isinstance(sink, ToySink)
    for _replayed in (False, True):
        sink.write(SinkBatch(7, build=lambda: pytest.fail("needs no Spark"), table=pa.table({"v": [1, 2]}), run="r"))
    assert [path.name for path in (tmp_path / "results" / "of-t").iterdir()] == ["-r-000000000007.arrow"]
    with pytest.raises(ConfigError, match=r"needs the key `options\.folder`"):
        parse_pipeline({"sinks": {"out": {"format": "toy", "path": "x"}}, "streams": {}, "transforms": {}}, tmp_path)


def documented() -> dict[str, list[str]]:
    """The rows of the table "to add … touch …": what, and the files of `src/windowpane`."""
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = re.search(r"^\| to add \|.*\n\|[- |]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table is not None
    rows = [line.strip("| \n").split(" | ") for line in table[1].splitlines()]
    return {row[0]: re.findall(r"`([\w/.]+)`", row[1]) for row in rows}


def test_the_documented_files_are_all_there_are_to_touch() -> None:
    """Existing files by name, new ones by their folder. A plugin registers with what those existing files have."""
    found = documented()
    assert {what: len(files) for what, files in found.items() if len(files) > GOALS.get(what, 0)} == {}
    assert not [file for files in found.values() for file in files if not (SRC / file).exists()]
    registries = {
        "an aggregate": aggregates.register,
        "a window kind": register,
        "a codec for message values": PAIRS.__class__,
        "a sink with exactly-once delivery": TOY.__class__,
    }
    for what, registry in registries.items():
        folder = Path(registry.__module__.removeprefix("windowpane.").replace(".", "/")).parent.as_posix()
        assert any(file.startswith(f"{folder}/") for file in found[what]), what


def test_every_file_that_the_architecture_names_is_there() -> None:
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:tests/)?[a-z_]+/[\w/]+(?:\.py)?)`", text))
    assert len(named) > 30
    roots = (SRC, Path(__file__).parents[1])
    assert not sorted(name for name in named if not any((root / name).exists() for root in roots))
