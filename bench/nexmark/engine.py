"""What is asked of an engine: results to compare, then rates to measure."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.nexmark.datasets import Dataset
from bench.nexmark.query import Query

MEMORY = "6g"
"""The heap of every engine's JVM. What the whole engine held, Python workers included, is measured."""
PATIENCE_S = 900.0
FEWEST_BATCHES = 3
"""Of a run that is measured: the first does not count, and one alone would say little."""


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
    """One way to run the queries, in a process of its own."""

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


def batch_sizes(wanted: Sequence[int], data: Dataset, most: int | None = None) -> list[int]:
    """Those of the wanted sizes, in whole files, that leave batches enough and are not above `most`.

    Where there is none, the largest size that leaves enough.
    """
    largest = max(data.file_rows, data.rows // FEWEST_BATCHES)
    if most is not None:
        largest = min(largest, most)
    sizes = {_whole_files(rows, data.file_rows) for rows in wanted if rows <= largest}
    return sorted(sizes or {_whole_files(largest, data.file_rows)})


def _whole_files(rows: int, file_rows: int) -> int:
    return max(1, rows // file_rows) * file_rows
