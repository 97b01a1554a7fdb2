"""`windowpane init --from`: samples a source and writes a commented pipeline.toml that runs as it is."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.config import PIPELINE_FILE, PipelineConfig, parse_pipeline
from windowpane.errors import ConfigError, InternalError, WindowpaneError
from windowpane.formats import KAFKA, KAFKA_CONNECTOR, source_format
from windowpane.plan.pipeline import plan_transforms
from windowpane.preview.event_time import EventTime, find_event_time
from windowpane.preview.file_sample import NeedsSparkError
from windowpane.preview.source_format import FoundSource, find_source
from windowpane.preview.stream_sample import StreamSample, sample_stream
from windowpane.remote.objects import scheme_of
from windowpane.sql.types import quoted
from windowpane.time import format_duration, format_instant

_SECOND_US = 1_000_000
_WINDOWS = (
    ("ss", 1, 1), ("ss", 5, 5), ("ss", 10, 10), ("ss", 30, 30), ("mi", 1, 60), ("mi", 5, 300), ("mi", 15, 900),
    ("hh", 1, 3_600), ("hh", 6, 21_600), ("dd", 1, 86_400),
)  # fmt: skip
"""Unit, number and seconds of the windows that are suggested."""
_FEW_WINDOWS = 6
_MOST_GROUPS = 100
_ID = re.compile(r"(^|_)(id|uuid|guid|key|no|number|offset|partition|port|zip|year|month|day|hour)$|id$", re.IGNORECASE)
_MEASURE = re.compile(
    r"price|amount|value|total|cost|fee|size|bytes|count|qty|quantity|duration|latency|temp|speed|score"
)
_STAMP = "timestamp"
"""The column with the time of a Kafka record."""
_NO_TIME = "# No column of the sample holds a time, so windows use processing time: the time at which rows are read."


@dataclass(frozen=True)
class NewPipeline:
    """What was found, and the text that was made of it."""

    source: FoundSource
    sampled: int
    eventtime: EventTime | None
    text: str
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        time = self.eventtime
        return {
            "stream": self.source.name,
            "format": self.source.format,
            "schema": self.source.ddl,
            "sampled_rows": self.sampled,
            "eventtime": None
            if time is None
            else {
                "column": time.column, "type": time.type, "out_of_order_rows": time.out_of_order,
                "most_out_of_order": format_duration(time.most_us), "suggested_lag": format_duration(time.lag_us),
                "other_columns": list(time.others),
            },
            "notes": list(self.notes),
        }  # fmt: skip


def write_pipeline(address: str, folder: Path, rows: int) -> tuple[Path, NewPipeline]:
    """Sample the source and write `pipeline.toml` into `folder`, which must not have one."""
    target = folder / PIPELINE_FILE
    if target.exists():
        message = f"`{target}` already exists, so nothing was written"
        raise ConfigError("FILE_EXISTS", message, "choose another folder, or move it away", file=str(target))
    made = new_pipeline(address, folder, rows)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        target.write_text(made.text, encoding="utf-8", newline="\n")
    except OSError as error:
        message = f"the pipeline cannot be written to `{folder}`: {error.strerror}"
        raise ConfigError("CANNOT_WRITE", message, "choose another folder", file=str(target)) from None
    return target, made


def new_pipeline(address: str, folder: Path, rows: int) -> NewPipeline:
    """The pipeline of a source, for a file in `folder`. It is checked before anybody sees it."""
    source = find_source(address, rows)
    config = _config(source)
    notes = list(source.notes)
    try:
        sample = sample_stream(config, source.name, rows, newest=True)
    except NeedsSparkError as needed:
        sample = StreamSample((), whole=False)
        notes.append(f"{needed.message}, so the event time was not looked for")
    if source.path is not None:
        source = replace(source, path=_as_seen_from(folder, source.path))
    eventtime = _event_time(source, sample)
    if eventtime is None:
        notes.append("no column holds a time: the pipeline uses processing time")
    made = NewPipeline(source, sample.count, eventtime, "", tuple(notes))
    text = _text(made, sample)
    _check(text, folder)
    return replace(made, text=text)


def _as_seen_from(folder: Path, path: str) -> str:
    """Relative paths are relative to pipeline.toml."""
    if scheme_of(path) or path.startswith("file:") or Path(path).is_absolute():
        return path
    return os.path.relpath(path, folder)


def _config(source: FoundSource) -> PipelineConfig:
    """A pipeline that has the stream, and a query so that it is complete."""
    sql = f"SELECT count(*) AS row_count FROM {source.name} GROUP BY tumblingwindow('ss', 1)"
    tables = {
        "streams": {source.name: source.settings()},
        "transforms": {"all_rows": {"sql": sql, "sink": "results"}},
        "sinks": {"results": {"format": "console"}},
    }
    return parse_pipeline(tables)


def _check(text: str, folder: Path) -> None:
    try:
        plan_transforms(parse_pipeline(text, base_dir=folder))
    except WindowpaneError as wrong:
        raise InternalError("BAD_PIPELINE", f"the pipeline that was made is wrong: {wrong.render()}") from wrong


def _event_time(source: FoundSource, sample: StreamSample) -> EventTime | None:
    """A column of the records; the time of the Kafka record if they have none."""
    by_partition: dict[str, list[pa.Table]] = {}
    for part in sample.parts:
        by_partition.setdefault(part.partition, []).append(part.rows.table)
    parts = [pa.concat_tables(tables) for tables in by_partition.values()]
    names = parts[0].column_names if parts else []
    if source.format != KAFKA:
        return find_event_time(parts, names)
    beside = {name for name, _ in source_format(KAFKA).record_columns}
    return find_event_time(parts, [name for name in names if name not in beside]) or find_event_time(parts, [_STAMP])


def _text(made: NewPipeline, sample: StreamSample) -> str:
    source = made.source
    lines = [
        f"# Made by `windowpane init --from` from a sample of {made.sampled:,} rows. Change what you like.",
        "#   windowpane check      checks this file and says what the pipeline will do",
        "#   windowpane preview    runs the query over a sample of the source, in seconds",
        "#   windowpane run        runs it on Spark; --drain also emits the windows that are still open at the end",
        '# Relative paths are relative to this file. Durations are strings: "500ms", "5s", "2m", "1h", "1d".',
        "",
        f"[streams.{source.name}]",
        *_stream_lines(made),
        "",
        "[options]",
        *_option_lines(made),
        "",
        f"[transforms.{_transform(source)}]",
        *_transform_lines(made, sample),
        "",
        f"[transforms.{_transform(source)}.side_output]",
        "# Rows that reach no result, as they were read. Other kinds are only counted.",
        *(['late = { sink = "dlq", include_original = true }'] if made.eventtime else []),
        'error = { sink = "dlq", include_original = true }',
        "",
        "[sinks.results]",
        'format = "console"                   # `windowpane connectors` lists the others',
        "",
        "[sinks.dlq]",
        'format = "json"',
        'path = "out/dlq"',
    ]  # fmt: skip
    if source.format == KAFKA:
        lines += ["", "[spark]", f'packages = ["{KAFKA_CONNECTOR}"]']
    return "\n".join(lines) + "\n"


def _transform(source: FoundSource) -> str:
    return f"{source.name}_counts"


def _stream_lines(made: NewPipeline) -> list[str]:
    source, time = made.source, made.eventtime
    lines = [f"# {note[0].upper()}{note[1:]}." for note in source.notes]
    lines.append(f"format = {_toml(source.format)}")
    if source.path is not None:
        lines.append(f"path = {_toml(source.path)}")
    if source.value_format is not None:
        lines.append(f"value_format = {_toml(source.value_format)}")
    lines += _misfit_lines(source)
    lines.append(f"schema = {_toml(source.ddl)}")
    if time is None:
        lines += [_NO_TIME, '# eventtime = { column = "…", type = "iso8601" }']
    else:
        lines += _time_lines(made, time)
    if source.options:
        lines.append(f"options = {_toml(source.options)}")
    return lines


def _misfit_lines(source: FoundSource) -> list[str]:
    found = source.misfits
    if found is None or not found.misfits:
        return []
    more = found.others + max(len(found.misfits) - 3, 0)
    lines = ["# Values that do not fit the schema, which become error rows:"]
    lines += [f"#   {_one_line(misfit.render())}" for misfit in found.misfits[:3]]
    return [*lines, *([f"#   and {more} more"] if more else [])]


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def _time_lines(made: NewPipeline, time: EventTime) -> list[str]:
    share = "all rows have one" if time.readable == 1 else f"{time.readable:.1%} of the rows have one"
    lines = [f"# Event time: {share}, from {format_instant(time.first_us)} to {format_instant(time.last_us)}."]
    if time.column == _STAMP and made.source.format == KAFKA:
        lines.append("# No column of the values holds a time: this is the time of the Kafka record.")
    if time.others:
        lines.append(f"# Other columns with times: {', '.join(map(_one_line, time.others[:5]))}.")
    lines += [
        "# strict: rows without a readable time become error rows. Otherwise they get the source's own time.",
        f"eventtime = {{ column = {_toml(time.column)}, type = {_toml(time.type)}, strict = true }}",
    ]
    return lines


def _option_lines(made: NewPipeline) -> list[str]:
    time, lines = made.eventtime, []
    if time is None:
        lines += ["eventtime = { enabled = false }         # processing time"]
    else:
        most = format_duration(time.most_us)
        order = (
            f"{time.out_of_order:,} of {made.sampled:,} rows are out of order, by {most} at most"
            if time.out_of_order
            else f"all {made.sampled:,} rows are in order"
        )
        beyond = f"; {time.beyond:,} of them by more than the lag" if time.beyond else ""
        lines += [
            "# late_tolerance: how far the watermark stays behind the largest event time seen.",
            f"# In the sample, {order}{beyond}.",
            f'eventtime = {{ enabled = true, late_tolerance = "{format_duration(time.lag_us)}" }}',
        ]
    return [
        *lines,
        'checkpoint = "state"                 # offsets, state and ledger: a restart resumes from here',
        'trigger = "available_now"            # stop after reading everything; remove it to go on for ever',
    ]  # fmt: skip


def _transform_lines(made: NewPipeline, sample: StreamSample) -> list[str]:
    table = pa.concat_tables([part.rows.table for part in sample.parts]) if sample.parts else pa.table({})
    times = {made.eventtime.column, *made.eventtime.others} if made.eventtime else set()
    key = _group_key(table, times)
    measure = _measure(table, times | {key or ""})
    unit, number = _window(made.eventtime)
    outputs = ["window_start", *([quoted(key)] if key else []), "count(*) AS row_count"]
    if measure:
        name = re.sub(r"\W+", "_", measure)
        outputs += [f"avg({quoted(measure)}) AS avg_{name}", f"max({quoted(measure)}) AS max_{name}"]
    groups = [f"tumblingwindow('{unit}', {number})", *([quoted(key)] if key else [])]
    return [
        "sql = '''",
        f"SELECT {', '.join(outputs)}",
        f"FROM {made.source.name}",
        f"GROUP BY {', '.join(groups)}",
        "'''",
        'sink = "results"',
        *(
            ['allowed_lateness = "0s"              # how long a window accepts rows after its end']
            if made.eventtime
            else []
        ),
    ]


def _window(time: EventTime | None) -> tuple[str, int]:
    """The largest window of which the sample has a few."""
    seconds = time.spread_us / _SECOND_US / _FEW_WINDOWS if time else 10
    fitting = [window for window in _WINDOWS if window[2] <= seconds] or [_WINDOWS[0]]
    unit, number, _ = fitting[-1]
    return unit, number


def _group_key(table: pa.Table, times: set[str]) -> str | None:
    """A column with few values, each in several rows."""
    best: tuple[float, str] | None = None
    for field in table.schema:
        kind = field.type
        groupable = pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
        if field.name in times or not groupable or field.name in ("offset", "partition", "topic"):
            continue
        found = pc.count_distinct(table.column(field.name)).as_py()
        if 2 <= found <= min(_MOST_GROUPS, max(table.num_rows // 3, 2)):
            rank = (0 if pa.types.is_string(kind) else 1 if _ID.search(field.name) else 2) * 1_000 + found
            best = min(best, (rank, field.name)) if best else (rank, field.name)
    return best[1] if best else None


def _measure(table: pa.Table, times: set[str]) -> str | None:
    """A number that is worth an average."""
    numbers = [
        field.name
        for field in table.schema
        if (pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type))
        and field.name not in times
        and not _ID.search(field.name)
        and table.column(field.name).null_count < table.num_rows
    ]
    named = [name for name in numbers if _MEASURE.search(name.lower())]
    fractions = [name for name in numbers if pa.types.is_floating(table.schema.field(name).type)]
    return next(iter([*named, *fractions, *numbers]), None)


def _toml(value: object) -> str:
    """A value of TOML on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = [
            f"{name if re.fullmatch(r'[A-Za-z0-9_-]+', name) else json.dumps(name)} = {_toml(each)}"
            for name, each in value.items()
        ]
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
