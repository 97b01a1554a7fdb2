"""Every query on every engine: results first, and only where they are all equal the rates."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from bench.nexmark.comparing import Mismatch, compare
from bench.nexmark.datasets import Dataset, Format, write_dataset
from bench.nexmark.engines import Engine, Rate, limit
from bench.nexmark.processes import EngineError
from bench.nexmark.queries import Query

CHECK_FILES = 8
CHECK_PER_SECOND = 5_000
"""Bids per second of event time where results are compared: few, so that the longest window goes by."""
FILE_ROWS = 500_000


@dataclass
class Comparison:
    """What came out for one query. `notes`: by engine, why there is no figure."""

    query: Query
    equal_rows: int = 0
    rates: dict[str, list[Rate]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    limit: float | None = None

    def best(self, engine: str) -> Rate | None:
        """At the batch size that suits the engine best."""
        return max(self.rates.get(engine, []), key=lambda rate: rate.rows_per_second, default=None)

    def ratio(self, other: str) -> float | None:
        """How much faster windowpane is."""
        mine, theirs = self.best("windowpane"), self.best(other)
        return mine.rows_per_second / theirs.rows_per_second if mine and theirs else None


@dataclass(frozen=True)
class Sizes:
    rows: int
    check_rows: int
    batch_rows: Sequence[int]
    format: Format = "parquet"


def check(queries: Sequence[Query], engines: Sequence[Engine], sizes: Sizes, console: Console) -> list[Comparison]:
    """Comparisons without rates yet. Ends the benchmark where an engine gives other rows."""
    comparisons = {query.name: Comparison(query) for query in queries}
    with tempfile.TemporaryDirectory(prefix="windowpane-nexmark-") as scratch:
        cases = {query.name: (query, _check_data(query, sizes, Path(scratch))) for query in queries}
        for engine in engines:
            _check_engine(engine, cases, comparisons, Path(scratch) / engine.name)
            console.print(f"{engine.name}: {_checked(engine, list(comparisons.values()))}")
    return list(comparisons.values())


def _check_data(query: Query, sizes: Sizes, scratch: Path) -> Dataset:
    shape = replace(query.shape, per_second=min(query.shape.per_second, CHECK_PER_SECOND))
    return write_dataset(
        scratch / "data" / query.name, query.streams, shape, sizes.check_rows,
        file_rows=sizes.check_rows // CHECK_FILES, flush=True, file_format=sizes.format, for_readers=True,
    )  # fmt: skip


def _check_engine(
    engine: Engine, cases: Mapping[str, tuple[Query, Dataset]], comparisons: Mapping[str, Comparison], folder: Path
) -> None:
    able = {}
    for name, (query, data) in cases.items():
        reason = engine.missing() or engine.cannot(query)
        if reason:
            comparisons[name].notes[engine.name] = reason
        else:
            able[name] = (query, data)
    if able:
        engine.results(able, folder)
    for name, (query, data) in able.items():
        try:
            comparisons[name].equal_rows = compare(query, data, folder / name)
        except Mismatch as mismatch:
            raise SystemExit(f"{engine.name}, {query.title}: {mismatch}. No time was taken.") from mismatch


def _checked(engine: Engine, comparisons: Sequence[Comparison]) -> str:
    missing = {one.notes[engine.name] for one in comparisons if engine.name in one.notes}
    equal = sum(engine.name not in one.notes for one in comparisons)
    return f"{equal} queries give the expected rows" + (f"; not: {'; '.join(missing)}" if missing else "")


def measure(comparison: Comparison, engines: Sequence[Engine], sizes: Sizes, console: Console) -> None:
    """Fill in the rates, one engine after the other, each alone on the machine."""
    query = comparison.query
    with tempfile.TemporaryDirectory(prefix="windowpane-nexmark-") as scratch:
        rows = max(2 * FILE_ROWS, int(sizes.rows * query.share))
        for_flink = any(engine.name == "flink" and engine.name not in comparison.notes for engine in engines)
        data = write_dataset(
            Path(scratch), query.streams, query.shape, rows,
            file_rows=FILE_ROWS, file_format=sizes.format, for_readers=for_flink,
        )  # fmt: skip
        comparison.limit = limit(query, data)
        for engine in engines:
            if engine.name not in comparison.notes:
                _measure_engine(comparison, engine, data, sizes, console)


def _measure_engine(comparison: Comparison, engine: Engine, data: Dataset, sizes: Sizes, console: Console) -> None:
    name = engine.name
    try:
        comparison.rates[name] = engine.rates(comparison.query, data, sizes.batch_rows)
    except EngineError as failed:
        comparison.notes[name] = failed.reason()
    best = comparison.best(name)
    shown = f"{best.rows_per_second / 1e6:.2f} M rows/s" if best else comparison.notes[name]
    console.print(f"{comparison.query.title}: {name} {shown}")
