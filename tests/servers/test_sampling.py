"""Samples of Kafka topics without Spark: pipelines for them, and previews."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from tests.servers.world import Broker
from windowpane.cli.app import app

START_MS = 1_767_225_600_000


def run(*args: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(args))
    return result.exit_code, result.stdout, result.stderr


def made(broker: Broker, topic: str, folder: Path) -> dict[str, Any]:
    code, _, err = run("init", str(folder), "--from", f"kafka://{broker.server.address}/{topic}")
    assert (code, err) == (0, "")
    return tomllib.loads((folder / "pipeline.toml").read_text(encoding="utf-8"))


def test_a_topic_of_several_partitions(kafka: Broker, tmp_path: Path) -> None:
    topic = kafka.topic("orders", partitions=2)
    for partition in (0, 1):
        # The second partition is an hour behind the first: each has its own order.
        rows = [{"k": at % 3, "ts": START_MS - partition * 3_600_000 + at * 1_000} for at in range(100)]
        kafka.send(topic, rows, partition)
    kafka.send(topic, [b'{"k": 1'], 1)
    stream = next(iter(made(kafka, topic, tmp_path)["streams"].values()))
    assert stream["schema"] == "k BIGINT, ts BIGINT"
    assert stream["eventtime"] == {"column": "ts", "type": "unixtimestamp_ms", "strict": True}
    code, out, _ = run("preview", str(tmp_path / "pipeline.toml"), "--json")
    assert code == 0
    (found,) = json.loads(out)["transforms"]
    account = {name: count for name, count in found["account"].items() if count}
    assert account == {"in": 201, "aggregated": 200, "error": 1}
    code, out, _ = run("preview", str(tmp_path / "pipeline.toml"), "--rows", "50", "--json")
    assert json.loads(out)["transforms"][0]["rows"] == {next(iter(json.loads(out)["transforms"][0]["rows"])): 50}


def test_a_recorded_test_of_a_topic(kafka: Broker, tmp_path: Path) -> None:
    topic = kafka.topic("clicks")
    kafka.send(topic, [{"page": f"p{at % 2}", "ms": at} for at in range(10)], at_ms=START_MS)
    options = made(kafka, topic, tmp_path)
    stream = next(iter(options["streams"].values()))
    assert stream["eventtime"] == {"column": "timestamp", "type": "timestamp", "strict": True}
    code, _, err = run("test", str(tmp_path / "a.slt"), "--record", str(tmp_path / "pipeline.toml"))
    assert (code, err) == (0, "")
    assert run("test", str(tmp_path / "a.slt"))[0] == 0
    assert "expect rows" in (tmp_path / "a.slt").read_text(encoding="utf-8")


def test_other_values(kafka: Broker, tmp_path: Path) -> None:
    texts = kafka.topic("lines")
    kafka.send(texts, ["one", "two"])
    assert next(iter(made(kafka, texts, tmp_path / "a")["streams"].values()))["value_format"] == "string"
    changes = kafka.topic("changes")
    kafka.send(changes, [{"op": "c", "before": None, "after": {"id": 1}, "ts_ms": START_MS}])
    stream = next(iter(made(kafka, changes, tmp_path / "b")["streams"].values()))
    assert (stream["value_format"], stream["schema"]) == ("debezium-json", "id BIGINT, op STRING, ts_ms BIGINT")
    binary = kafka.topic("binary")
    kafka.send(binary, [b"\x00\x00\x00\x00\x01\x02", b"\x00\x00\x00\x00\x01\x03"])
    code, _, err = run("init", str(tmp_path / "c"), "--from", f"kafka://{kafka.server.address}/{binary}")
    assert (code, err[:16]) == (2, "[UNKNOWN_FORMAT]")


def test_topics_that_are_empty_or_unknown(kafka: Broker, tmp_path: Path) -> None:
    topic, err = kafka.topic("empty"), ""
    for name, code in ((topic, "NO_ROWS"), (f"{topic}x", "UNKNOWN_TOPIC")):
        exit_code, _, err = run("init", str(tmp_path), "--from", f"kafka://{kafka.server.address}/{name}")
        assert (exit_code, err.partition("]")[0]) == (2, f"[{code}")
    assert topic in err
