"""Settings for all tests: how hypothesis searches, which jars Spark starts with, what needs Spark, and the order."""

from __future__ import annotations

import gc
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from scripts.java_archive import java_options
from scripts.servers import S3, Hdfs, UnavailableError, running
from tests.command_runs import Runs
from tests.scheduling import LongestFirst, write_seconds

pytest.register_assert_rewrite("tests.spark.jobs")
gc.disable()  # until all tests are collected

# No deadline: a machine under load is not a failing property. In CI the examples are the same in every run, so that a
# change is judged by what it changes; at a developer's desk they differ, so that the search goes on.
settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("desk"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

# One Java process serves the whole run, and reads its jars when it starts: those of Kafka have to be there by then.
CONNECTOR = sorted((Path(__file__).parents[1] / ".tools" / "kafka" / "connector").glob("*.jar"))
if CONNECTOR:
    jars = shlex.quote(",".join(map(str, CONNECTOR)))
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"--jars {jars} pyspark-shell")

os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """An S3 server with a bucket."""
    with running(S3) as server:
        yield server


@pytest.fixture(scope="session")
def hdfs() -> Iterator[Hdfs]:
    """A real HDFS. The test is skipped where its jars cannot be had, and fails where CI is set."""
    try:
        made = Hdfs()
    except UnavailableError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    with running(lambda: made) as server:
        yield server


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """The command line in a folder. Whatever it starts ends with the test."""
    running = Runs(tmp_path)
    yield running
    running.kill()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that takes a Spark session or a server is marked so, whether it says so or not."""
    for item in items:
        for name in ("spark", "s3", "hdfs", "kafka"):
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(name)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LongestFirst | None:
    """Only the Spark part runs file by file; the quick tests are dealt out one by one."""
    return LongestFirst(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is there after collection stays to the end: the garbage collector need not look at it again and again."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if os.environ.get("WINDOWPANE_SECONDS"):
        stats = terminalreporter.stats
        write_seconds([each for name in ("passed", "") for each in stats.get(name, ())])
