"""What is asked of an engine: results to compare, then rates to measure. Each is started in a process of its own."""

from __future__ import annotations

import abc
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.nexmark import flink_tables
from bench.nexmark.comparing import connect
from bench.nexmark.datasets import READERS, Dataset, write_dataset
from bench.nexmark.processes import ROOT, Usage, execute
from bench.nexmark.queries import Query
from bench.nexmark.spark_queries import CANNOT

MEMORY = "6g"
"""The heap of every engine's JVM. What the whole engine held, Python workers included, is measured."""
PATIENCE_S = 900.0


@dataclass(frozen=True)
class Rate:
    """Rows per second, warm; `batch_rows` where the engine has batches of a size that is chosen."""

    rows_per_second: float
    batch_rows: int | None = None
    batches: int | None = None
    peak_mb: float | None = None
    others: float | None = None
    """The share of the machine that other processes took meanwhile, over all runs of the engine's process."""


class Engine(abc.ABC):
    """One way to run the queries."""

    name: str

    def missing(self) -> str | None:
        """Why the engine cannot be had here, if so."""
        return None

    def cannot(self, query: Query) -> str | None:
        """Why the engine has no spelling of the query, if so."""
        return None

    @abc.abstractmethod
    def results(self, cases: Mapping[str, tuple[Query, Dataset]], folder: Path) -> None:
        """Write the results of each query to the folder of its name."""

    @abc.abstractmethod
    def rates(self, query: Query, data: Dataset, batch_rows: Sequence[int]) -> list[Rate]:
        """Measured after one run over all the data that does not count."""

    @abc.abstractmethod
    def latency(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """Run the latency query until told to stop: by window, the rows counted in it and when they came."""


class _OnSpark(Engine):
    def results(self, cases: Mapping[str, tuple[Query, Dataset]], folder: Path) -> None:
        self._execute([_run(query, data, 2, folder / name) for name, (query, data) in cases.items()])

    def rates(self, query: Query, data: Dataset, batch_rows: Sequence[int]) -> list[Rate]:
        files = sorted({max(1, rows // data.file_rows) for rows in batch_rows if rows * 2 <= data.rows} or {1})
        runs = [_run(query, data, number, None) for number in (files[-1], *files)]
        answers, usage = self._execute(runs)
        return [
            Rate(
                answer["rows"] / answer["seconds"],
                number * data.file_rows,
                answer["batches"],
                usage.peak_mb,
                usage.others,
            )
            for number, answer in zip(files, answers[1:], strict=True)
        ]

    def latency(self, task: Mapping[str, Any]) -> dict[str, Any]:
        command = [sys.executable, "-m", "bench.nexmark.latency_job"]
        given = {**task, "engine": self.name, "memory": MEMORY}
        arrivals, _usage = execute(command, given, seconds=PATIENCE_S)
        return dict(arrivals)

    def _execute(self, runs: list[dict[str, Any]]) -> tuple[Any, Usage]:
        command = [sys.executable, "-m", "bench.nexmark.spark_job"]
        with tempfile.TemporaryDirectory(prefix="windowpane-nexmark-") as scratch:
            task = {"engine": self.name, "memory": MEMORY, "scratch": scratch, "runs": runs}
            return execute(command, task, seconds=PATIENCE_S, environment={"SPARK_LOCAL_DIRS": scratch})


def _run(query: Query, data: Dataset, files: int, out: Path | None) -> dict[str, Any]:
    folders = {stream: str(folder) for stream, folder in data.folders.items()}
    where = str(out) if out else None
    return {"query": query.name, "folders": folders, "format": data.format, "files": files, "out": where}


class Windowpane(_OnSpark):
    name = "windowpane"


class Spark(_OnSpark):
    name = "spark"

    def cannot(self, query: Query) -> str | None:
        return CANNOT.get(query.name)


class Flink(Engine):
    """Its jobs have no batches: a rate is the rows that a run over all files had more than one over the first
    two, over the time that it took longer. Start and end of a job, which both have, are not in it.
    """

    name = "flink"

    def __init__(self) -> None:
        self._python: str | None = None
        self._reason: str | None = None

    def missing(self) -> str | None:
        if self._python is None and self._reason is None:
            self._python, self._reason = flink_python()
        return self._reason

    def results(self, cases: Mapping[str, tuple[Query, Dataset]], folder: Path) -> None:
        jobs = {name: _job(query, data, folder / name) for name, (query, data) in cases.items()}
        self._execute(jobs)

    def rates(self, query: Query, data: Dataset, batch_rows: Sequence[int]) -> list[Rate]:
        with tempfile.TemporaryDirectory(prefix="windowpane-nexmark-") as folder:
            part = write_dataset(
                Path(folder), query.streams, query.shape, READERS * data.file_rows,
                file_rows=data.file_rows, file_format=data.format, for_readers=True,
            )  # fmt: skip
            whole = _job(query, data, None)
            took, usage = self._execute({"warm-up": whole, "whole": whole, "part": _job(query, part, None)})
        return [
            Rate((data.rows - part.rows) / (took["whole"] - took["part"]), peak_mb=usage.peak_mb, others=usage.others)
        ]

    def latency(self, task: Mapping[str, Any]) -> dict[str, Any]:
        given = {**task, "settings": flink_tables.LATENCY_SETTINGS}
        arrivals, _usage = self._start("flink_latency_job.py", given)
        return dict(arrivals)

    def _execute(self, jobs: Mapping[str, Sequence[str]]) -> tuple[Any, Usage]:
        return self._start("flink_job.py", {"settings": flink_tables.SETTINGS, "jobs": jobs})

    def _start(self, script: str, task: Mapping[str, Any]) -> tuple[Any, Usage]:
        assert self._python is not None
        command = [self._python, str(ROOT / "bench" / "nexmark" / script)]
        return execute(command, task, seconds=PATIENCE_S, environment={"JVM_ARGS": f"-Xmx{MEMORY}"})


def _job(query: Query, data: Dataset, out: Path | None) -> list[str]:
    """Statements of which the last is the job."""
    sources = flink_tables.sources(query, data.reader_folders, data.format)
    return [*sources, *flink_tables.sink("results", query, out), f"INSERT INTO results {query.flink}"]


def limit(query: Query, data: Dataset, repeats: int = 3) -> float:
    """Rows per second of one batch query in DuckDB over the same files, its results fetched, two threads."""
    database, samples = connect(data.folders, data.format), []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        database.sql(query.duckdb).to_arrow_table()
        samples.append(time.perf_counter() - began)
    return data.rows / statistics.median(samples[1:])


ENGINES: dict[str, type[Engine]] = {engine.name: engine for engine in (Windowpane, Spark, Flink)}


def flink_python() -> tuple[str | None, str | None]:
    """The Python of Flink's environment, or why it cannot be had."""
    asked = subprocess.run([ROOT / "scripts" / "flink"], capture_output=True, text=True, check=False)  # noqa: S603
    if asked.returncode == 0:
        return asked.stdout.strip(), None
    return None, (asked.stderr.strip().splitlines() or ["scripts/flink failed"])[-1]
