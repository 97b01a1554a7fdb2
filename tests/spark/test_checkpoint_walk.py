"""Every file that a run leaves in its checkpoint, damaged in every way: a typed error names it, or nothing is wrong."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.jobs import Job, Query, finish
from tests.spark.test_queries import LAG, SCHEMA
from windowpane.checkpoint.control import Requests
from windowpane.checkpoint.recent import EventLog, RecentFile
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.status import StatusFile
from windowpane.connectors.sinks import CallableSink
from windowpane.errors import StateError, WindowpaneError
from windowpane.runtime import Pipeline
from windowpane.runtime.inspection import describe_checkpoint, ledger_entries

pytestmark = pytest.mark.spark

ROUTES = {
    "late": {"sink": "dlq", "include_original": True},
    "error": {"sink": "reinject", "then": "dlq", "include_original": True},
}
QUERY = Query(
    "SELECT k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 3), k",
    {"s": SCHEMA},
    LAG,
    {"side_output": ROUTES},
)
LAST = 3
"""Number of the last micro-batch."""
LEFT_TO_SPARK = re.compile(rf"q/spark/(state/.*|(offsets|commits|sources/\d+)/[0-{LAST - 1}]|(.*/)?\.[^/]*\.crc)")
"""State, logs of earlier batches and checksums: no start of ours reads them, and Spark checks what it uses."""
WRITTEN_ANEW = re.compile(r"spark\.log|run\.lock|control\.json")
"""Whatever they contain, nothing is lost by it."""
MAY_BE_GONE = re.compile(rf"(status|recent|events)\.json|q/spark/commits/{LAST}")
"""The next start writes a status and what the live page shows; a batch that was not committed comes again."""


def rows(first: int, count: int) -> list[dict[str, Any]]:
    return [{"ts": 1000 * (first + number), "k": f"k{number % 3}", "v": number} for number in range(count)]


def away(_frame: DataFrame, _batch_id: int) -> None:
    raise ConnectionError("the broker is away")


class World:
    """A pipeline that was stopped: rows wait for a sink that is away, and to be read again."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.job = spark, Job(folder, QUERY)
        bad = [{"ts": None, "k": "no time", "v": 1}]
        self.job.feed_all([rows(100, 9), rows(200, 9) + bad, [{"ts": 0, "k": "late", "v": 1}], rows(300, 2) + bad])
        self.pipeline = Pipeline.from_dict(
            self.job.settings(), folder, sinks={"results": self.job.results, "dlq": CallableSink("dlq", away)}
        )
        self.state = folder / "state"
        finish(self.pipeline.start(spark), drain=False)

    def preflight(self) -> None:
        """All that a start and the other commands read of the checkpoint, without Spark."""
        pipeline, plan = self.pipeline, self.pipeline.plans[0]
        lock = RunLock(pipeline.store)
        lock.acquire()
        try:
            Requests(pipeline.store).forget()
            checkpoint = pipeline.checkpoint(plan)
            checkpoint.claim(plan, pipeline.config.options.shards)
            describe_checkpoint(checkpoint)
            ledger_entries(checkpoint, 1000)
            StatusFile(pipeline.store).read()
            RecentFile(pipeline.store).read()
            EventLog(pipeline.store).read()
            for outbox in checkpoint.outboxes().values():
                outbox.delivered()
                for batch_id in outbox.pending():
                    outbox.read(batch_id)
        finally:
            lock.release()

    def refusal(self) -> StateError | None:
        try:
            self.preflight()
        except StateError as refused:
            return refused
        return None

    def resume(self) -> WindowpaneError | None:
        """Start again with Spark; the error that it ended with."""
        try:
            finish(self.pipeline.start(self.spark), drain=False)
        except WindowpaneError as failed:
            return failed
        return None

    def files(self) -> dict[str, Path]:
        """Without the lease, which every start gives another name: tests/checkpoint/test_lease.py damages it."""
        found = [path for path in sorted(self.state.rglob("*")) if path.is_file()]
        found = [path for path in found if path.parent.name != "run.lock.lease"]
        return {str(path.relative_to(self.state)): path for path in found}


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(spark, tmp_path_factory.mktemp("walk"))


def damages(kept: bytes) -> Iterator[bytes | None]:
    """What the file has instead; None: there is a folder in its place."""
    yield from (b"", b"[]", b"null", b"{}", b"\xff\x00{", kept[: len(kept) // 2], None)


def put(path: Path, content: bytes | None) -> None:
    path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
    path.mkdir() if content is None else path.write_bytes(content)


def test_every_file_is_checked_or_harmless(world: World) -> None:
    """The walk finds the files: a new one fails this test until somebody has decided what its damage means."""
    files = world.files()
    for needed in ("status.json", "q/plan.json", f"q/ledger/{LAST:012}.json", f"q/spark/offsets/{LAST}"):
        assert needed in files
    assert any(name.startswith("q/outbox/dlq/") for name in files)
    assert any(name.startswith("q/reinject/s/") for name in files)
    world.preflight()
    for name, path in files.items():
        if LEFT_TO_SPARK.fullmatch(name):
            continue
        kept = path.read_bytes()
        for damage in damages(kept):
            put(path, damage)
            check(world, name, path, harmless=bool(WRITTEN_ANEW.fullmatch(name)) and damage is not None)
        path.rmdir()
        check(world, name, path, harmless=bool(WRITTEN_ANEW.fullmatch(name) or MAY_BE_GONE.fullmatch(name)))
        put(path, kept)
    world.preflight()


def check(world: World, name: str, path: Path, *, harmless: bool) -> None:
    refused = world.refusal()
    if refused is None:
        assert harmless, f"{name} is not missed"
        return
    assert str(path) in refused.message, name
    assert refused.exit_code == 1
    assert refused.hint


SAMPLES = {
    "state": r"q/spark/state/0/0/.*\.(delta|zip|changelog|snapshot|sst)",
    "the state's description": r"q/spark/state/0/_metadata/.*/?[^.][^/]*",
    "an earlier source log": r"q/spark/sources/0/1",
    "an earlier plan of a batch": rf"q/spark/offsets/{LAST - 1}",
    "a checksum": rf"q/spark/offsets/\.{LAST}\.crc",
}


def test_spark_s_own_files_give_a_typed_error_or_the_right_totals(world: World) -> None:
    world.job.feed(rows(400, 5))
    backup = world.job.folder / "backup"
    shutil.copytree(world.state, backup)
    endings: dict[str, str] = {}
    for what, pattern in SAMPLES.items():
        found = [path for name, path in world.files().items() if re.fullmatch(pattern, name)]
        assert found, what
        for path in found:
            put(path, b"\xff\x00{")
        failed = world.resume()
        if failed is not None:
            assert failed.exit_code == 1
            assert "Traceback" not in failed.render()
        else:
            last = world.pipeline.checkpoint(world.pipeline.plans[0]).ledger.last()
            assert last is not None
            assert last.totals["in_"] == 9 + 10 + 1 + 3 + 5
        endings[what] = failed.code if failed else "right"
        shutil.rmtree(world.state)
        shutil.copytree(backup, world.state)
    assert endings["state"] == "SPARK_FAILED", endings
