"""Delta, Iceberg, DuckDB, Redis and webhooks as sinks of one pipeline that is killed, and what each does alone."""

from __future__ import annotations

import contextlib
import gc
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import duckdb
import pytest
import redis as redis_client
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession

from scripts.servers import Redis
from tests.servers.test_end_to_end import KILLED_BEFORE_ITS_LEDGER_ENTRY, PATIENCE_SECONDS
from windowpane.connectors.redis_keys import RedisSink
from windowpane.connectors.sinks import SinkBatch
from windowpane.connectors.table_sinks.delta import DeltaSink
from windowpane.connectors.table_sinks.iceberg import IcebergSink
from windowpane.connectors.webhook import WebhookSink
from windowpane.errors import SinkError
from windowpane.runtime import Pipeline

pytestmark = pytest.mark.spark

QUERY = "SELECT window_start, k, count(*) AS n, sum(v) AS s FROM t GROUP BY tumblingwindow('ss', 10), k EMIT ON UPDATE"


class Receiver:
    """An HTTP server that keeps what it is sent. `refuse`: answers for the next requests."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], Any]] = []
        self.refuse: list[int] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                code = receiver.refuse.pop(0) if receiver.refuse else 204
                if code == 204:
                    receiver.requests.append((dict(self.headers), body))
                self.send_response(code)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/results?token=secret"

    @contextlib.contextmanager
    def running(self) -> Iterator[Receiver]:
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().running() as running:
        yield running


def sinks(folder: Path, redis: Redis, receiver: Receiver, key: str) -> dict[str, Any]:
    catalog = {
        "table": "shop.hot", "catalog.type": "sql", "catalog.uri": f"sqlite:///{folder}/catalog.db",
        "catalog.warehouse": f"file://{folder}/warehouse",
    }  # fmt: skip
    return {
        "delta": {"format": "delta", "path": "delta"},
        "history": {"format": "delta", "path": "history", "mode": "append"},
        "iceberg": {"format": "iceberg", "options": catalog},
        "duck": {"format": "duckdb", "path": "results.duckdb", "options": {"table": "hot"}},
        "redis": {"format": "redis", "options": {"url": redis.url, "key": key}},
        "hook": {"format": "webhook", "options": {"url": receiver.url, "header.Authorization": "Bearer x"}},
        "late": {"format": "delta", "path": "late"},
    }  # fmt: skip


def settings(folder: Path, redis: Redis, receiver: Receiver, key: str) -> dict[str, Any]:
    names = ["delta", "history", "iceberg", "duck", "redis", "hook"]
    return {
        "streams": {
            "t": {
                "format": "json", "path": "in", "schema": "k STRING, v BIGINT, ms BIGINT",
                "eventtime": {"column": "ms", "type": "unixtimestamp_ms"}, "options": {"maxFilesPerTrigger": 1},
            }
        },
        "options": {"eventtime.enabled": True, "trigger": "available_now", "shards": 2},
        "transforms": {"q": {"sql": QUERY, "sink": names, "side_output": {"late": {"sink": "late"}}}},
        "sinks": sinks(folder, redis, receiver, key),
    }  # fmt: skip


def feed(folder: Path) -> None:
    (folder / "in").mkdir(parents=True)
    files: list[list[tuple[str | None, int, int]]] = [
        [("a", 1, 1), ("b", 2, 2), ("a", 3, 11)],
        [("a", 4, 3), ("b", 5, 12), (None, 6, 13)],
        [("a", 7, 14), ("a", 8, 25), ("b", 9, 26)],
        [("z", 1, 1), ("a", 10, 41)],
    ]
    for number, given in enumerate(files):
        lines = [json.dumps({"k": k, "v": v, "ms": second * 1000}) for k, v, second in given]
        (folder / "in" / f"{number}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")


@contextlib.contextmanager
def opened(redis: Redis) -> Iterator[Any]:
    """A client of the server. Closed clients leave no sockets behind."""
    client: Any = redis_client.Redis.from_url(redis.url)
    try:
        yield client
    finally:
        client.close()


def contents(folder: Path, redis: Redis, receiver: Receiver, key: str) -> dict[str, Any]:
    delta, history = (DeltaTable(str(folder / name)).to_pyarrow_table() for name in ("delta", "history"))
    catalog = load_catalog(
        "default", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
    )
    iceberg = catalog.load_table("shop.hot").scan().to_arrow()
    with duckdb.connect(folder / "results.duckdb", read_only=True) as connection:
        duck = connection.sql("SELECT k, n, s, _emit_epoch, _is_final FROM hot").to_arrow_table()
    with opened(redis) as client:
        kept = [json.loads(client.get(name)) for name in client.keys(f"{key}:*:*") if b":windowpane:" not in name]
    posted = [row for _, body in receiver.requests for row in body]
    late = DeltaTable(str(folder / "late")).to_pyarrow_table()
    return {
        **{name: rows(found) for name, found in {"delta": delta, "iceberg": iceberg, "duck": duck}.items()},
        "history": rows(history),
        "redis": sorted((row["k"] or "", row["n"], row["s"]) for row in kept),
        "posted": sorted({(row["k"] or "", row["n"], row["s"], row["_emit_epoch"]) for row in posted}),
        "late": [json.loads(record)["reason"] for record in late["record"].to_pylist()],
    }


def rows(table: Any) -> list[tuple[object, ...]]:
    columns = ("k", "n", "s", "_emit_epoch", "_is_final")
    found = zip(*(table[name].to_pylist() for name in columns), strict=True)
    return sorted(found, key=lambda row: (row[0] or "", *row[1:]))


def test_a_killed_pipeline_leaves_every_result_once(
    spark: SparkSession, redis: Redis, receiver: Receiver, tmp_path: Path
) -> None:
    steady, killed = tmp_path / "steady", tmp_path / "killed"
    for folder in (steady, killed):
        feed(folder)
    with Receiver().running() as other:
        Pipeline.from_dict(settings(steady, redis, other, "steady"), steady).start(spark).drain()
        wanted = contents(steady, redis, other, "steady")
    given = killed / "settings.json"
    own = settings(killed, redis, receiver, "killed")
    given.write_text(json.dumps(own | {"spark": {"master": "local[2]"}}), encoding="utf-8")
    script = [sys.executable, "-c", KILLED_BEFORE_ITS_LEDGER_ENTRY, str(given), str(killed)]
    assert subprocess.run(script, cwd=killed, timeout=PATIENCE_SECONDS, check=False).returncode == -signal.SIGKILL
    Pipeline.from_dict(own, killed).start(spark).drain()
    assert contents(killed, redis, receiver, "killed") == wanted
    assert len(wanted["delta"]) == 8
    assert wanted["delta"] == wanted["iceberg"] == wanted["duck"]
    assert wanted["redis"] == [(k or "", n, s) for k, n, s, *_ in wanted["delta"]]
    assert wanted["late"] == ["allowed_lateness_exceeded"] * 2
    keys = [headers["Idempotency-Key"] for headers, _ in receiver.requests]
    assert len(keys) > len(set(keys)), "the killed batch was posted again, with the key it had"
    assert all(headers["Authorization"] == "Bearer x" for headers, _ in receiver.requests)


def batch(frame: DataFrame, batch_id: int, **more: Any) -> SinkBatch:
    return SinkBatch(batch_id, lambda: frame, transform="q", run="r1", rows=frame.count(), **more)


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_executors_write_large_results(spark: SparkSession, tmp_path: Path, kind: str, *, partitioned: bool) -> None:
    options = {"partition_by": "k"} if partitioned else {}
    if kind == "delta":
        sink: DeltaSink | IcebergSink = DeltaSink("out", str(tmp_path / "t"), options)
    else:
        catalog = {"catalog.type": "sql", "catalog.uri": f"sqlite:///{tmp_path}/catalog.db"}
        catalog |= {"catalog.warehouse": f"file://{tmp_path}/warehouse", "table": "shop.hot"}
        sink = IcebergSink("out", catalog | options)
    columns = ["id AS n", "IF(id % 3 = 0, NULL, concat('ü ', id % 3)) AS k", "'w' AS _window_id"]
    columns += ["concat('{', id, '}') AS _group_key", "CAST(1 AS BIGINT) AS _emit_epoch", "true AS _is_final"]
    first = spark.range(0, 90, 1, 4).selectExpr(*columns)
    later = spark.range(80, 100, 1, 2).selectExpr(*columns)
    later = later.selectExpr("-n AS n", "k", "_window_id", "_group_key", "_emit_epoch + 1 AS _emit_epoch", "_is_final")
    for number, frame in enumerate((first, later)):
        for _ in range(2):
            sink.write(batch(frame, number, identified=True, large=True))
    found = sink._read(None)
    assert found is not None
    assert sorted(found["n"].to_pylist()) == sorted([*range(80), *(-n for n in range(80, 100))])
    nulls = [n for n, k in zip(found["n"].to_pylist(), found["k"].to_pylist(), strict=True) if k is None]
    assert all(n % 3 == 0 for n in nulls)
    assert len(nulls) == 34
    gained = spark.range(200, 210, 1, 2).selectExpr(*columns, "concat('top ', id) AS top")
    sink.write(batch(gained, 2, identified=True, large=True))
    found = sink._read(None)
    assert found is not None
    assert sorted(filter(None, found["top"].to_pylist())) == [f"top {n}" for n in range(200, 210)]
    assert found.num_rows == 110


def test_a_webhook_that_refuses(spark: SparkSession, receiver: Receiver) -> None:
    sink = WebhookSink("hook", {"url": receiver.url, "rows_per_request": "2"})
    rows_of_three = batch(spark.range(3).toDF("n"), 0)
    for code, passing in ((500, True), (429, True), (400, False)):
        receiver.refuse = [code]
        with pytest.raises(SinkError, match=f"answered {code}") as refused:
            sink.write(rows_of_three)
        assert refused.value.passing is passing
        assert "secret" not in refused.value.message
    sink.write(rows_of_three)
    assert [body for _, body in receiver.requests] == [[{"n": 0}, {"n": 1}], [{"n": 2}]]
    with pytest.raises(SinkError, match="cannot reach"):
        WebhookSink("hook", {"url": "http://127.0.0.1:9/x"}).write(rows_of_three)


# The client leaves the socket of a refused connection to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_rows_without_groups_go_to_a_stream_of_redis(spark: SparkSession, redis: Redis) -> None:
    sink = RedisSink("out", {"url": redis.url, "key": "plain", "max_length": "1000"})
    for _ in range(2):
        sink.write(batch(spark.range(2).toDF("n"), 0))
        sink.write(batch(spark.createDataFrame([('{"kind":"late"}',)], "value STRING"), 0, side_records=True))
    with opened(redis) as client:
        assert [entry[b"value"] for _, entry in client.xrange("plain")] == [b'{"n":0}', b'{"n":1}', b'{"kind":"late"}']
    sink.close()
    with pytest.raises(SinkError) as away:
        RedisSink("out", {"url": "redis://127.0.0.1:9/0", "key": "plain"}).check([])
    assert away.value.passing
    del away
    gc.collect()
