"""What a pipeline's processes are started with: addresses, paths, signals, Java."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from windowpane.config import parse_options
from windowpane.connectors.sources import resolved
from windowpane.errors import ConfigError, SparkError
from windowpane.runtime.failures import start_failure
from windowpane.runtime.signals import StopSignals, stop_signals
from windowpane.spark.java import java_problem
from windowpane.spark.session import _environment
from windowpane.spark.workers import is_local


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,3]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://host:7077", False),
        ("yarn", False),
        ("k8s://https://host", False),
        ("localhost-in-the-cloud", False),
    ],
)
def test_the_loopback_address_is_for_local_masters_alone(
    master: str, local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    assert is_local(master) is local
    assert _environment(master) == ({"SPARK_LOCAL_IP": "127.0.0.1"} if local else {})
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.1")
    assert _environment(master) == {}, "what the user sets holds"


@pytest.mark.parametrize("path", ["s3a://b/state", "hdfs://h/state", "gs://b", "abfss://c@a.net/x"])
def test_a_checkpoint_may_be_an_address(path: str) -> None:
    assert parse_options({"checkpoint": f"{path}/"}).checkpoint == path


@pytest.mark.parametrize("path", ["s3a:/b", "s3a:b", "gs://", "hdfs:///"])
def test_half_an_address_is_refused(path: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_options({"checkpoint": path})
    assert refused.value.code == "BAD_PATH"


@pytest.mark.parametrize(
    ("path", "folder"),
    [("state", "state"), ("/data/x", "/data/x"), ("file:///data/x", "/data/x"), ("file:/data/x", "/data/x"),
     ("a/b:c", "a/b:c")],
)  # fmt: skip
def test_a_checkpoint_on_this_machine(path: str, folder: str) -> None:
    assert parse_options({"checkpoint": path}).checkpoint == folder


def test_addresses_are_not_taken_for_folders() -> None:
    assert resolved("file:/data", Path("base")) == "file:/data"
    assert resolved("s3a://bucket/data", Path("base")) == "s3a://bucket/data"
    assert resolved("data", Path("base")) == "base/data"


def test_a_signal_interrupts_a_start_and_asks_a_run() -> None:
    with stop_signals() as signals:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert signals.asked.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert not signals.is_impatient, "`timeout` sends its signal twice"
    with stop_signals() as signals:
        signals.started()
        signal.raise_signal(signal.SIGINT)
        assert signals.asked.is_set()


def test_a_second_signal_after_a_moment_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    signals, now = StopSignals(), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    signals._interrupts = False
    signals.hear()
    now[0] = 5.0
    with pytest.raises(KeyboardInterrupt):
        signals.hear()
    assert signals.is_impatient


def java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n", encoding="utf-8")
    program.chmod(0o755)
    return folder


def summary(error: SparkError | None) -> str:
    assert error is not None
    assert "install Java 17 or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless" in str(error.hint)
    assert error.exit_code == 1
    return f"{error.code}: {error.message}"


def test_java_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "new", "17.0.15")))
    assert java_problem() is None
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "old", "1.8.0_402")))
    old = f"JAVA_TOO_OLD: Spark needs Java 17 or newer, and {tmp_path}/old/bin/java is Java 8"
    assert summary(java_problem()) == old
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    assert summary(java_problem()).startswith(
        f"JAVA_MISSING: Spark needs Java 17 or newer: JAVA_HOME is {tmp_path}/none"
    )
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert summary(java_problem()) == "JAVA_MISSING: Spark needs Java 17 or newer, and there is no Java on PATH"


def test_a_java_problem_is_told_as_it_is_and_old_lines_of_the_log_are_not(tmp_path: Path) -> None:
    problem = SparkError("JAVA_MISSING", "no Java")
    log = tmp_path / "spark.log"
    log.write_text("of an earlier run\n", encoding="utf-8")
    assert start_failure(problem, log) is problem
    assert "earlier run" not in start_failure(RuntimeError("why"), log, log.stat().st_size).message
