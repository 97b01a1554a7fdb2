"""Every query on every engine: results first, and only of those that are as expected the rates.

What an engine does not do becomes a note; the others go on.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.nexmark.datasets import Dataset, Format, write_dataset
from bench.nexmark.engine import FEWEST_BATCHES, Engine, Rate
from bench.nexmark.engine_registry import limit
from bench.nexmark.processes import EngineError
from bench.nexmark.progress import Progress
from bench.nexmark.query import Query
from bench.nexmark.result_check import Mismatch, compare
from bench.nexmark.topics import TopicError, broker, fill
from scripts.servers import Kafka

CHECK_FILES = 8
CHECK_PER_SECOND = 5_000
"""Bids per second of event time where results are compared: few, so that the longest window goes by."""
FILE_ROWS = 500_000


@dataclass
class Comparison:
    """What came out for one query. `notes`: by engine, why there is no figure; `differs`: whose results are wrong."""

    query: Query
    rows: int = 0
    equal_rows: dict[str, int] = field(default_factory=dict)
    """By engine, how many rows were compared, all equal."""
    rates: dict[str, list[Rate]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    differs: set[str] = field(default_factory=set)
    limit: float | None = None

    def best(self, engine: str) -> Rate | None:
        """At the batch size that suits the engine best."""
        return max(self.rates.get(engine, []), key=lambda rate: rate.rows_per_second, default=None)

    def ratio(self, other: str) -> float | None:
        """How much faster windowpane is."""
        mine, theirs = self.best("windowpane"), self.best(other)
        return mine.rows_per_second / theirs.rows_per_second if mine and theirs else None


Comparisons = Mapping[str, Comparison]
Cases = dict[str, tuple[Query, Dataset]]


@dataclass(frozen=True)
class Sizes:
    rows: int
    check_rows: int
    batch_rows: Sequence[int]
    format: Format = "parquet"

    def of(self, query: Query) -> tuple[int, int]:
        """The rows that a query is measured with, and those of a file: fewer where there would be too few files."""
        rows = int(self.rows * query.share)
        return rows, max(2, min(FILE_ROWS, rows // FEWEST_BATCHES // 2 * 2))


def check(queries: Sequence[Query], engines: Sequence[Engine], sizes: Sizes, progress: Progress) -> list[Comparison]:
    """Comparisons without rates yet. No time is taken of an engine that gives other rows than expected."""
    comparisons = {query.name: Comparison(query) for query in queries}
    for_kafka = any(query.source == "kafka" for query in queries)
    with _scratch() as scratch, broker(wanted=for_kafka) as server:
        cases: Cases = {}
        with progress.step(f"data for {len(queries)} queries to compare results on"):
            for query in queries:
                data = _check_data(query, sizes, scratch, server)
                if isinstance(data, str):
                    comparisons[query.name].notes |= {engine.name: data for engine in engines}
                else:
                    cases[query.name] = (query, data)
        for engine in engines:
            with progress.step(f"results of {engine.name}") as found:
                _check_engine(engine, cases, comparisons, scratch / engine.name)
                found.extend(_checked(engine, list(comparisons.values())))
    return list(comparisons.values())


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="windowpane-nexmark-") as folder:
        yield Path(folder)


def _check_data(query: Query, sizes: Sizes, scratch: Path, server: Kafka | str) -> Dataset | str:
    shape = replace(query.shape, per_second=min(query.shape.per_second, CHECK_PER_SECOND))
    smaller = replace(query, shape=shape)
    file_rows = sizes.check_rows // CHECK_FILES
    return _data(smaller, sizes, scratch / "data" / query.name, server, (sizes.check_rows, file_rows), flush=True)


def _data(
    query: Query,
    sizes: Sizes,
    folder: Path,
    server: Kafka | str,
    rows: tuple[int, int],
    *,
    flush: bool = False,
    for_readers: bool = True,
) -> Dataset | str:
    """The files of a query, and for Kafka the topic that holds their lines; or why there is none."""
    in_kafka = query.source == "kafka"
    if in_kafka and isinstance(server, str):
        return server
    data = write_dataset(
        folder, query.streams, query.shape, rows[0], file_rows=rows[1], flush=flush,
        file_format="json" if in_kafka else sizes.format, for_readers=for_readers and not in_kafka,
        with_tables=query.tables,
    )  # fmt: skip
    if not in_kafka or isinstance(server, str):
        return data
    try:
        return replace(data, topic=fill(server, query.name, data.folders["bids"], data.rows, query.value_format))
    except TopicError as failed:
        return str(failed)


def _check_engine(engine: Engine, cases: Cases, comparisons: Comparisons, folder: Path) -> None:
    able: Cases = {}
    for name, (query, data) in cases.items():
        if (reason := engine.missing() or engine.cannot(query)) is not None:
            comparisons[name].notes[engine.name] = reason
        else:
            able[name] = (query, data)
    for name in _with_results(engine, able, comparisons, folder):
        query, data = able[name]
        try:
            comparisons[name].equal_rows[engine.name] = compare(query, data, folder / name)
        except Mismatch as mismatch:
            comparisons[name].notes[engine.name] = f"other results than expected: {mismatch}"
            comparisons[name].differs.add(engine.name)


def _with_results(engine: Engine, cases: Cases, comparisons: Comparisons, folder: Path) -> list[str]:
    """All in one process; if that fails, each in its own, so that only what fails by itself has no results."""
    if not cases:
        return []
    with contextlib.suppress(EngineError):
        engine.results(cases, folder)
        return list(cases)
    shutil.rmtree(folder, ignore_errors=True)
    done = []
    for name, case in cases.items():
        try:
            engine.results({name: case}, folder)
            done.append(name)
        except EngineError as failed:
            comparisons[name].notes[engine.name] = failed.reason()
    return done


def _checked(engine: Engine, comparisons: Sequence[Comparison]) -> list[str]:
    equal = sum(engine.name not in one.notes for one in comparisons)
    notes = [f"{one.query.name}: {one.notes[engine.name]}" for one in comparisons if engine.name in one.notes]
    return [f"{equal} queries give the expected rows", *notes]


def measure(comparison: Comparison, engines: Sequence[Engine], sizes: Sizes, progress: Progress) -> None:
    """Fill in the rates, one engine after the other, each alone on the machine."""
    query = comparison.query
    able = [engine for engine in engines if engine.name not in comparison.notes]
    with _scratch() as scratch, broker(wanted=bool(able) and query.source == "kafka") as server:
        rows = sizes.of(query)
        with progress.step(f"{query.name}: {rows[0] / 1e6:g} M rows") as found:
            for_flink = any(engine.name == "flink" for engine in able)
            data = _data(query, sizes, scratch, server, rows, for_readers=for_flink)
            if isinstance(data, str):
                comparison.notes |= {engine.name: data for engine in able}
                return
            comparison.rows, comparison.limit = data.rows, limit(query, data)
            found.append(f"DuckDB {comparison.limit / 1e6:.3g} M rows/s")
        for engine in able:
            with progress.step(f"{query.name}: {engine.name}") as found:
                found.append(_measure_engine(comparison, engine, data, sizes))


def _measure_engine(comparison: Comparison, engine: Engine, data: Dataset, sizes: Sizes) -> str:
    name = engine.name
    try:
        comparison.rates[name] = engine.rates(comparison.query, data, sizes.batch_rows)
    except EngineError as failed:
        comparison.notes[name] = failed.reason()
        return comparison.notes[name]
    tried = (
        f"{rate.rows_per_second / 1e6:.3g}" + (f" at {rate.batch_rows / 1e6:.3g} M" if rate.batch_rows else "")
        for rate in comparison.rates[name]
    )
    return f"M rows/s {', '.join(tried)}"
