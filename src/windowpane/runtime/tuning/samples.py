"""A sample of a stream, read from files: rows go through the query's own expressions, and time moves as it would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from windowpane.core import columns as c
from windowpane.core.frames import Clock, Progress, Rows
from windowpane.core.lateness import LatenessSketch
from windowpane.core.operators.intake import Intake
from windowpane.core.watermark import PartitionWatermark
from windowpane.errors import ConfigError
from windowpane.plan.lateness import lateness_judge
from windowpane.remote.input_file import InputFile
from windowpane.runtime.asking.asked import Asked
from windowpane.runtime.asking.input_rows import InputRows
from windowpane.scan.json.files import read_batches

BATCH_ROWS = 1_000
"""Rows of a micro-batch, if the user does not say: as many as a source gives at once matter for what is late."""
_MAX_RECORD = 64 * 1024 * 1024


@dataclass(frozen=True)
class Sample:
    """What a sample shows."""

    sketch: LatenessSketch = field(default_factory=LatenessSketch)
    progress: list[Mapping[str, int]] = field(default_factory=list)
    """The largest event time of each partition after each micro-batch."""
    rows: list[pa.RecordBatch] = field(default_factory=list)
    """The rows that the query takes."""


def read_sample(asked: Asked, files: Sequence[Path], stream: str, batch_rows: int) -> Sample:
    """Files of a file source are one partition, read one after the other; for other sources each is a partition."""
    judge = lateness_judge(asked.plan.stages)
    assert judge is not None, "checked by the caller"
    time = asked.time
    assert time is not None
    reader = InputRows(asked, stream)
    found, tracker = Sample(), PartitionWatermark(judge.lag_us, tuple(time.streams))
    intake = Intake(max_future_skew_us=time.max_future_skew_us)
    one = asked.config.streams[stream].source_format.is_files
    arrivals = 0
    for parts in _in_turn(files, reader.schema, batch_rows, one=one):
        batches = [reader.of_table(table, partition, arrivals) for partition, table in parts]
        arrivals += sum(batch.num_rows for batch in batches)
        list(intake.on_frame(Clock(reader.clock_us)))
        for batch in batches:
            found.sketch.observe(batch, judge, tracker.watermark_us)
            _take(intake, batch, found, tracker, reader.clock_us)
        tracker.advance(reader.clock_us)
        found.progress.append(dict(tracker.maxima))
    return found


def _take(intake: Intake, batch: pa.RecordBatch, found: Sample, tracker: PartitionWatermark, clock_us: int) -> None:
    for frame in intake.on_frame(Rows(batch)):
        if isinstance(frame, Progress):
            tracker.observe(frame.maxima, clock_us)
        elif isinstance(frame, Rows):
            found.rows.append(frame.batch)


def _in_turn(files: Sequence[Path], schema: pa.Schema, rows: int, *, one: bool) -> Iterator[list[tuple[str, pa.Table]]]:
    """Micro-batches: some rows of each partition."""
    if one:
        parts = {"0": _chained(files, schema, rows)}
    else:
        share = max(1, rows // len(files))
        parts = {str(number): _chained([file], schema, share) for number, file in enumerate(files)}
    while True:
        read = [(partition, next(batches, None)) for partition, batches in parts.items()]
        batch = [(partition, table) for partition, table in read if table is not None]
        if not batch:
            return
        yield batch


def _chained(files: Sequence[Path], schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
    rest: pa.Table | None = None
    for file in files:
        for read in _read(file, schema):
            rest = read if rest is None else pa.concat_tables([rest, read])
            while rest.num_rows >= rows:
                yield rest.slice(0, rows)
                rest = rest.slice(rows)
    if rest is not None and rest.num_rows:
        yield rest


def _read(file: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """Columns of the schema, and CORRUPT."""
    suffixes = [suffix for suffix in file.suffixes if suffix not in (".gz", ".bz2", ".zst", ".lz4")]
    ending = suffixes[-1] if suffixes else ""
    try:
        if ending in (".json", ".jsonl", ".ndjson"):
            for batch in read_batches(InputFile(str(file)), schema, _MAX_RECORD):
                yield pa.Table.from_batches([batch])
        elif ending == ".parquet":
            yield _fitted(pa.parquet.read_table(file), schema)
        else:
            raise ConfigError(
                "SAMPLE_FORMAT",
                f"{file} cannot be a sample",
                "a sample is .json, .jsonl (a record per line) or .parquet",
            )
    except FileNotFoundError:
        raise ConfigError("PATH_NOT_FOUND", f"there is no file {file}", "name the files of a sample") from None
    except (OSError, pa.ArrowException) as broken:
        raise ConfigError("SAMPLE_FORMAT", f"{file} cannot be read: {broken}") from None


def _fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    by_name = {name.lower(): name for name in table.column_names}
    columns = [table.column(by_name[field.name.lower()]).cast(field.type) if field.name.lower() in by_name
               else pa.nulls(table.num_rows, field.type) for field in schema]  # fmt: skip
    whole = pa.Table.from_arrays(columns, schema=schema)
    return whole.append_column(c.CORRUPT, pa.nulls(table.num_rows, pa.string()))
