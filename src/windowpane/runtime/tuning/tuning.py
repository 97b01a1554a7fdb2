"""All that `windowpane tune` finds out about a transform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windowpane.core.lateness import LatenessSketch
from windowpane.core.windows import Session
from windowpane.errors import ConfigError, StateError
from windowpane.runtime.asking.asked import Asked
from windowpane.runtime.asking.input_rows import chosen_stream
from windowpane.runtime.tuning.batches import BatchTuning, ShardTuning, batch_tuning, shard_tuning
from windowpane.runtime.tuning.gaps import GapEffect, gap_effects
from windowpane.runtime.tuning.lags import LagTuning
from windowpane.runtime.tuning.partitions import PartitionTuning, partition_tunings
from windowpane.runtime.tuning.samples import BATCH_ROWS, read_sample


@dataclass(frozen=True)
class TuneOptions:
    """What the user asks for. Without files of a sample, the ledger tells."""

    files: tuple[Path, ...] = ()
    stream: str | None = None
    batch_rows: int = BATCH_ROWS
    loss: float = 0.001
    last: int | None = None
    """How many micro-batches of the ledger count; None: all that are kept."""


@dataclass(frozen=True)
class Tuning:
    """What is known of a transform, and what is recommended."""

    transform: str
    origin: str
    """Where it is from, for people."""
    lags: LagTuning
    lag_us: int
    lateness_us: int
    partitions: list[PartitionTuning]
    sketch: LatenessSketch
    batches: BatchTuning | None = None
    shards: ShardTuning | None = None
    gaps: list[GapEffect] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return {
            "transform": self.transform, "from": self.origin, "lag_us": self.lag_us,
            "allowed_lateness_us": self.lateness_us, **self.lags.as_dict(),
            "partitions": [each.as_dict() for each in self.partitions],
            "gaps": [each.as_dict() for each in self.gaps],
            "batches": self.batches.as_dict() if self.batches else None,
            "shards": self.shards.as_dict() if self.shards else None, "notes": self.notes,
        }  # fmt: skip


def tune(asked: Asked, options: TuneOptions) -> Tuning:
    """ConfigError if no row of the transform can be late, StateError if the ledger has no sketch."""
    if not asked.judged:
        what = (
            "uses processing time" if asked.plan.timing.mode == "processing_time" else "joins results of other queries"
        )
        raise ConfigError(
            "NOTHING_TO_TUNE", f"transform `{asked.name}` {what}: its rows have no lag of their own",
            "tune a transform with event time",
        )  # fmt: skip
    return _of_sample(asked, options) if options.files else _of_ledger(asked, options)


def _of_ledger(asked: Asked, options: TuneOptions) -> Tuning:
    entries = asked.entries if options.last is None else asked.entries[-options.last :]
    sketch, kept = LatenessSketch(), 0
    for entry in entries:
        if entry.lateness:
            sketch.merge(LatenessSketch.decoded(entry.lateness))
            kept += 1
    if not sketch.rows():
        raise StateError(
            "NO_SKETCH", f"the ledger of transform `{asked.name}` has no rows to learn from",
            "let the pipeline run for a while (earlier versions kept no sketch), or give files: --sample FILE",
        )  # fmt: skip
    notes = _notes(asked)
    if kept < len([entry for entry in entries if entry.accounting.get("in_")]):
        notes.append(f"{kept} of {len(entries)} micro-batches have a sketch; earlier versions kept none")
    record = asked.checkpoint.plan.read()
    return Tuning(
        asked.name, f"the ledger, {len(entries)} micro-batches", LagTuning.of(asked, sketch, options.loss),
        asked.lag_us, asked.lateness_us,
        partition_tunings(asked, sketch, [entry.maxima for entry in entries], entries, options.loss), sketch,
        batch_tuning(entries), shard_tuning(entries, record.shards if record else 1), notes=notes,
    )  # fmt: skip


def _of_sample(asked: Asked, options: TuneOptions) -> Tuning:
    stream = chosen_stream(asked, options.stream)
    if asked.time is not None and len(asked.time.streams) > 1:
        raise ConfigError(
            "NEEDS_LEDGER", f"transform `{asked.name}` reads several streams, whose rows a sample of one cannot time",
            "tune it from the ledger of a run: windowpane tune --from-ledger",
        )  # fmt: skip
    sample = read_sample(asked, options.files, stream, options.batch_rows)
    if not sample.sketch.rows():
        raise ConfigError("SAMPLE_EMPTY", "the sample has no row that the query takes", "name other files")
    spec = asked.window.spec if asked.window else None
    keys = [key.name for key in asked.plan.stages.first_window.keys]
    gaps = gap_effects(sample.rows, keys, spec.gap_us) if isinstance(spec, Session) else []
    files = f"{len(options.files)} file{'' if len(options.files) == 1 else 's'}"
    return Tuning(
        asked.name, f"a sample of {files}, in micro-batches of {options.batch_rows:,} rows",
        LagTuning.of(asked, sample.sketch, options.loss), asked.lag_us, asked.lateness_us,
        partition_tunings(asked, sample.sketch, sample.progress, [], options.loss), sample.sketch, gaps=gaps,
        notes=[*_notes(asked), "batch size and shards need the ledger of a run"],
    )  # fmt: skip


def _notes(asked: Asked) -> list[str]:
    spec = asked.window.spec if asked.window else None
    if isinstance(spec, Session) and not asked.row_rule:
        return ["late rows that join an open session count, so fewer rows than these are lost"]
    return []


def parse_loss(text: str) -> float:
    """`0.1%`, `0.001`; ConfigError if it is no share."""
    given = text.strip()
    try:
        share = float(given.removesuffix("%")) / (100 if given.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise ConfigError("BAD_SHARE", f"`{text}` is not a share of the rows", "write it like 0.1% or 0.001")
    return share


def sample_files(places: Sequence[str]) -> tuple[Path, ...]:
    """Files, and all files of folders in order of their names."""
    found: list[Path] = []
    for place in places:
        path = Path(place)
        inside = (
            sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith((".", "_")))
            if path.is_dir()
            else [path]
        )
        found += inside
    return tuple(found)
