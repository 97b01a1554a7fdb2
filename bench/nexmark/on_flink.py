"""Flink SQL: statements that `flink_job.py` runs in Flink's own environment."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.nexmark import flink_tables
from bench.nexmark.datasets import READERS, Dataset, write_dataset
from bench.nexmark.engine import MEMORY, PATIENCE_S, Engine, Rate
from bench.nexmark.processes import ROOT, EngineError, Usage, execute
from bench.nexmark.query import Query

PART = 0.25
"""The share of the rows that the shorter of the two runs has."""


class Flink(Engine):
    """Its jobs have no batches: a rate is the rows that a run over all of them had more than one over a part, over the
    time that it took longer. Start and end of a job, which both have, are not in it.
    """

    name = "flink"

    def __init__(self) -> None:
        self._python: str | None = None
        self._reason: str | None = None

    def cannot(self, query: Query) -> str | None:
        if query.value_format == "protobuf":
            return "Flink reads Protobuf by a compiled Java class of the message"
        return None

    def missing(self) -> str | None:
        if self._python is None and self._reason is None:
            self._python, self._reason = flink_python()
        return self._reason

    def results(self, cases: Mapping[str, tuple[Query, Dataset]], folder: Path) -> None:
        jobs = {name: _job(query, data, folder / name) for name, (query, data) in cases.items()}
        self._execute(jobs, [data for _query, data in cases.values()])

    def rates(self, query: Query, data: Dataset, batch_rows: Sequence[int]) -> list[Rate]:
        with tempfile.TemporaryDirectory(prefix="windowpane-nexmark-") as folder:
            share = query.share_of(self.name)
            some = data if share == 1 else _first(query, data, share, Path(folder) / "some")
            part = _first(query, some, PART, Path(folder) / "part")
            whole = _job(query, some, None)
            took, usage = self._execute({"warm-up": whole, "whole": whole, "part": _job(query, part, None)}, [data])
        if took["whole"] <= took["part"]:
            raise EngineError(f"{some.rows:,} rows took no longer than {part.rows:,}: too few for a rate")
        rate = (some.rows - part.rows) / (took["whole"] - took["part"])
        return [Rate(rate, peak_mb=usage.peak_mb, others=usage.others)]

    def latency(self, task: Mapping[str, Any]) -> dict[str, Any]:
        given = {**task, "settings": flink_tables.LATENCY_SETTINGS}
        arrivals, _usage = self._start("flink_latency_job.py", given)
        return dict(arrivals)

    def _execute(self, jobs: Mapping[str, Sequence[str]], data: Sequence[Dataset]) -> tuple[Any, Usage]:
        beside = {one.topic.broker_pid for one in data if one.topic is not None}
        return self._start("flink_job.py", {"settings": flink_tables.SETTINGS, "jobs": jobs}, beside)

    def _start(self, script: str, task: Mapping[str, Any], beside: Collection[int] = ()) -> tuple[Any, Usage]:
        assert self._python is not None
        return run_flink(self._python, script, task, beside)


def run_flink(python: str, script: str, task: Mapping[str, Any], beside: Collection[int] = ()) -> tuple[Any, Usage]:
    """Run a script of this folder in Flink's environment. Checkpoints go to files, and are gone when it ends."""
    command = [python, str(ROOT / "bench" / "nexmark" / script)]
    with tempfile.TemporaryDirectory(prefix="windowpane-nexmark-") as folder:
        settings = task["settings"] | {"execution.checkpointing.dir": Path(folder).as_uri()}
        return execute(
            command, {**task, "settings": settings}, seconds=PATIENCE_S, beside=beside,
            environment={"JVM_ARGS": f"-Xmx{MEMORY}"},
        )  # fmt: skip


def _first(query: Query, data: Dataset, share: float, folder: Path) -> Dataset:
    """Of a topic the first messages, else files of their own with fewer rows."""
    rows = int(data.rows * share) // READERS * READERS
    if data.topic is not None:
        return replace(data, rows=rows)
    return write_dataset(
        folder,
        query.streams,
        query.shape,
        rows,
        file_rows=rows // READERS,
        file_format=data.format,
        for_readers=True,
        with_tables=query.tables,
    )


def _job(query: Query, data: Dataset, out: Path | None) -> list[str]:
    """Statements of which the last is the job."""
    sources = flink_tables.sources(query, data)
    clock = flink_tables.clocked(ends_later=out is not None) if query.clocked_s else []
    return [*sources, *clock, *flink_tables.sink("results", query, out), f"INSERT INTO results {query.flink}"]


def flink_python() -> tuple[str | None, str | None]:
    """The Python of Flink's environment, or why it cannot be had."""
    asked = subprocess.run([ROOT / "scripts" / "flink"], capture_output=True, text=True, check=False)  # noqa: S603
    if asked.returncode == 0:
        return asked.stdout.strip(), None
    return None, (asked.stderr.strip().splitlines() or ["scripts/flink failed"])[-1]
