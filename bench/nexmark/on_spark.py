"""windowpane and Spark's own windows: both run `spark_job.py` in a process of its own."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.nexmark.datasets import Dataset, first_files
from bench.nexmark.engine import MEMORY, PATIENCE_S, Engine, Rate, batch_sizes
from bench.nexmark.processes import EngineError, Usage, execute
from bench.nexmark.query import Query
from bench.nexmark.spark_queries import CANNOT
from scripts.servers import connector_jars

CHECK_BATCHES = 4


class _OnSpark(Engine):
    def results(self, cases: Mapping[str, tuple[Query, Dataset]], folder: Path) -> None:
        runs = [
            _run(query, data, data.rows // CHECK_BATCHES, folder / name) for name, (query, data) in cases.items()
        ]  # fmt: skip
        self._execute(runs, [data for _query, data in cases.values()])

    def rates(self, query: Query, data: Dataset, batch_rows: Sequence[int]) -> list[Rate]:
        with tempfile.TemporaryDirectory(prefix="windowpane-nexmark-", dir=_beside(data)) as folder:
            some = first_files(data, query.share_of(self.name), Path(folder))
            sizes = batch_sizes(batch_rows, some, self.largest_batch(query))
            runs = [_run(query, some, size, None) for size in (sizes[-1], *sizes)]
            answers, usage = self._execute(runs, [some])
        return [_rate(size, answer, usage) for size, answer in zip(sizes, answers[1:], strict=True)]

    def largest_batch(self, query: Query) -> int | None:
        """Rows that are tried at most."""
        return None

    def latency(self, task: Mapping[str, Any]) -> dict[str, Any]:
        command = [sys.executable, "-m", "bench.nexmark.latency_job"]
        given = {**task, "engine": self.name, "memory": MEMORY}
        arrivals, _usage = execute(command, given, seconds=PATIENCE_S)
        return dict(arrivals)

    def _execute(self, runs: list[dict[str, Any]], data: Sequence[Dataset]) -> tuple[Any, Usage]:
        command = [sys.executable, "-m", "bench.nexmark.spark_job"]
        topics = [one.topic for one in data if one.topic is not None]
        with tempfile.TemporaryDirectory(prefix="windowpane-nexmark-") as scratch:
            task = {
                "engine": self.name, "memory": MEMORY, "scratch": scratch, "runs": runs,
                "jars": connector_jars() if topics else [],
            }  # fmt: skip
            return execute(
                command, task, seconds=PATIENCE_S, environment={"SPARK_LOCAL_DIRS": scratch},
                beside={topic.broker_pid for topic in topics},
            )  # fmt: skip


def _beside(data: Dataset) -> Path:
    return next(iter(data.folders.values())).parent


def _run(query: Query, data: Dataset, batch_rows: int, out: Path | None) -> dict[str, Any]:
    return {
        "query": query.name,
        "folders": {stream: str(folder) for stream, folder in data.folders.items()},
        "tables": {table: str(folder) for table, folder in data.tables.items()},
        "format": data.format,
        "file_rows": data.file_rows,
        "rows": data.rows,
        "batch_rows": batch_rows,
        "topic": vars(data.topic) if data.topic else None,
        "out": str(out) if out else None,
    }


def _rate(size: int, answer: Mapping[str, Any], usage: Usage) -> Rate:
    if not answer["seconds"]:
        raise EngineError(f"{answer['batches']} batches of {size:,} rows: too few for a rate")
    return Rate(answer["rows"] / answer["seconds"], size, answer["batches"], usage.peak_mb, usage.others)


class Windowpane(_OnSpark):
    name = "windowpane"


class Spark(_OnSpark):
    name = "spark"

    def cannot(self, query: Query) -> str | None:
        return CANNOT.get(query.name)

    def largest_batch(self, query: Query) -> int | None:
        return query.spark_batch_rows
