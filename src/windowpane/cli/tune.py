"""`windowpane tune`: what other settings would do, as tables, JSON or a picture."""

from __future__ import annotations

import json
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.table import Table

from windowpane.cli.figures import output_width
from windowpane.errors import ConfigError
from windowpane.runtime.asking.asked import asked_transforms, planned_transforms, span
from windowpane.runtime.tuning.picture import draw
from windowpane.runtime.tuning.tuning import TuneOptions, Tuning, parse_loss, sample_files, tune

SHOWN_PARTITIONS = 20


@dataclass(frozen=True)
class TuneArguments:
    """What the command line has."""

    sample: tuple[str, ...]
    from_ledger: bool
    stream: str | None
    batch_rows: int
    loss: str
    last: int | None
    picture: Path | None
    transform: str | None
    checkpoint: str | None


def answer(path: Path | None, given: TuneArguments, *, as_json: bool) -> str:
    """The text to print. Writes the picture, if one is asked for."""
    if given.sample and given.from_ledger:
        raise ConfigError("TOO_MANY_OPTIONS", "--sample and --from-ledger exclude each other", "give one of them")
    if given.picture is not None and given.picture.suffix != ".svg":
        raise ConfigError(
            "PICTURE_FORMAT", f"windowpane draws no `{given.picture.suffix}` pictures", "name a file that ends in .svg"
        )
    options = TuneOptions(
        sample_files(given.sample), given.stream, given.batch_rows, parse_loss(given.loss), given.last
    )  # fmt: skip
    find = planned_transforms if given.sample else asked_transforms
    tunings, refused = list[Tuning](), list[ConfigError]()
    transforms = list(find(path, given.transform, given.checkpoint))
    for asked in transforms:
        try:
            tunings.append(tune(asked, options))
        except ConfigError as error:
            if len(transforms) == 1:
                raise
            refused.append(error)
    if not tunings:
        raise refused[0]
    if given.picture is not None:
        _write_picture(given.picture, tunings)
    if as_json:
        return json.dumps([tuning.as_dict() for tuning in tunings], indent=2)
    return "\n\n".join(_text(tuning) for tuning in tunings)


def _write_picture(path: Path, tunings: list[Tuning]) -> None:
    if len(tunings) > 1:
        names = ", ".join(tuning.transform for tuning in tunings)
        raise ConfigError(
            "TOO_MANY_TRANSFORMS", "a picture shows one transform", f"choose: --transform, one of {names}"
        )
    try:
        path.write_text(draw(tunings[0]), encoding="utf-8")
    except OSError as failed:
        raise ConfigError("PICTURE_FILE", f"{path} cannot be written: {failed.strerror}") from failed


def _text(tuning: Tuning) -> str:
    lags = tuning.lags
    lines = [
        f"{tuning.transform}: {lags.rows:,} rows, from {tuning.origin}",
        (
            f"  for at most {_percent(lags.loss)} late rows: a lag of {span(lags.recommended_us)} (now "
            f"{span(tuning.lag_us)}), or with the present lag an allowed lateness of "
            f"{span(lags.recommended_lateness_us)} (now {span(tuning.lateness_us)})"
        ),
        f"  a lag of {span(lags.loses_nothing_us)} would have lost nothing",
    ]
    lines += [f"  note: {note}" for note in tuning.notes]
    tables = [_lag_table(tuning)]
    if len(tuning.partitions) > 1 or any(each.flag for each in tuning.partitions):
        tables.append(_partition_table(tuning))
    if tuning.gaps:
        tables.append(_gap_table(tuning))
    text = "\n".join(lines)
    return "\n\n".join([text, *map(_drawn, tables), *_batches(tuning)])


def _lag_table(tuning: Tuning) -> Table:
    table = Table(title="lags", title_justify="left")
    for label in ("lag", "late rows", "share", "results wait", "state"):
        table.add_column(label, justify="right")
    table.add_column("")
    for each in tuning.lags.effects:
        marks = [word for word, holds in (("now", each.is_present), ("recommended", each.is_recommended),
                                          ("loses nothing", each.loses_nothing)) if holds]  # fmt: skip
        table.add_row(
            span(each.lag_us), f"{each.late_rows:,}", _percent(each.share), span(each.delay_us),
            f"{each.state:.2f} x", ", ".join(marks),
        )  # fmt: skip
    return table


def _partition_table(tuning: Tuning) -> Table:
    table = Table(title="source partitions", title_justify="left")
    table.add_column("partition")
    for label in ("rows", "late", "share", f"lag for {_percent(tuning.lags.loss)}", "ahead"):
        table.add_column(label, justify="right")
    table.add_column("")
    flagged = sorted(tuning.partitions, key=lambda each: each.flag is None)
    for each in flagged[:SHOWN_PARTITIONS]:
        ahead = "" if each.ahead_us is None else f"{'-' if each.ahead_us < 0 else ''}{span(abs(each.ahead_us))}"
        table.add_row(
            each.partition, f"{each.rows:,}", f"{each.late_rows:,}", _percent(each.share), span(each.lag_us), ahead,
            each.flag or "",
        )  # fmt: skip
    if len(flagged) > SHOWN_PARTITIONS:
        table.caption = f"the first {SHOWN_PARTITIONS}; --json has all"
    return table


def _gap_table(tuning: Tuning) -> Table:
    table = Table(title="session gaps", title_justify="left")
    for label in ("gap", "sessions", "rows each", "mean length"):
        table.add_column(label, justify="right")
    table.add_column("")
    for each in tuning.gaps:
        table.add_row(
            span(each.gap_us), f"{each.sessions:,}", f"{each.rows_per_session:,.1f}", span(each.mean_length_us),
            "now" if each.is_present else "",
        )  # fmt: skip
    return table


def _batches(tuning: Tuning) -> list[str]:
    lines = []
    batches = tuning.batches
    if batches is not None and batches.unknown:
        lines.append(f"batch size: not known, {batches.unknown}")
    elif batches is not None and batches.recommended_rows is not None:
        lines.append(
            f"batch size: {batches.mean_rows:,.0f} rows on average; a micro-batch costs {batches.fixed_seconds:.2f} s "
            f"and {batches.seconds_per_million:.2f} s per million rows. From {batches.recommended_rows:,} rows on, the "
            "fixed cost is less than a fifth"
        )
    if tuning.shards is not None:
        lines.append(
            f"shards: {tuning.shards.shards}; the busiest gets {tuning.shards.skew:.1f} times the average; "
            f"{tuning.shards.advice}"
        )
    return ["\n".join(lines)] if lines else []


def _percent(part: float) -> str:
    return f"{part:.3%}" if 0 < part < 0.001 else f"{part:.2%}"


def _drawn(table: Table) -> str:
    text = StringIO()
    Console(file=text, width=output_width(), highlight=False, markup=False).print(table)
    return text.getvalue().rstrip()
