"""`windowpane test --record`: a golden file whose rows come from the streams of a pipeline."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from windowpane.config import PipelineConfig
from windowpane.errors import ConfigError, nearest
from windowpane.plan.build import Plan
from windowpane.plan.pipeline import plan_transforms, source_schema
from windowpane.preview.running import Part, Sampler, declare_schemas, harness_of, micro_batches
from windowpane.preview.stream_sample import StreamSample, sample_table
from windowpane.testing import golden
from windowpane.testing.decode import Decoded
from windowpane.testing.golden.rows import lay_out
from windowpane.testing.golden.values import bare_value, render, render_instant
from windowpane.testing.outputs import as_python

PUSHES = 4
"""Micro-batches of a recorded file: enough for the watermark to move between them."""
_TABLE_ROWS = 200
_MARGIN = "  "


def record(config: PipelineConfig, transform: str | None, rows: int, target: Path) -> int:
    """Write a golden file with at most about `rows` rows of each stream, and what the query gives for them now.

    How many rows it has. ConfigError if the file exists, or if only Spark can run the query.
    """
    if target.exists():
        hint = "choose another name, or rewrite its expectations with --complete"
        raise ConfigError("FILE_EXISTS", f"`{target}` already exists, so nothing was written", hint, file=str(target))
    found = declare_schemas(config)
    plan = _plan(config, transform)
    samples = Sampler(config, rows).streams_of(plan)
    harness_of(config, plan)
    text = "\n".join(_lines(config, plan, samples, target, found)) + "\n"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="\n")
        golden.complete(target)
    except OSError as error:
        message = f"`{target}` cannot be written: {error.strerror}"
        raise ConfigError("CANNOT_WRITE", message, "choose another folder", file=str(target)) from None
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return sum(sample.count for sample in samples.values())


def _plan(config: PipelineConfig, transform: str | None) -> Plan:
    if transform is None and len(config.transforms) > 1:
        hint = f"name one with --transform: {nearest('', config.transforms)}"
        raise config.error("MISSING_OPTION", "the pipeline has several transforms, and a file tests one", hint)
    (plan,) = plan_transforms(config, transform)
    return plan


def _lines(
    config: PipelineConfig, plan: Plan, samples: Mapping[str, StreamSample], target: Path, undeclared: set[str]
) -> Iterator[str]:
    file = Path(config.file or "pipeline.toml")
    counts = ", ".join(f"{sample.count:,} rows of {name}" for name, sample in samples.items())
    yield f"# {plan.transform} of {file.name} over {counts}, recorded from the source. Review the expectations."
    for name in samples.keys() & undeclared:
        yield f"stream {name}: {config.streams[name].schema_}"
    for name in dict.fromkeys(join.table for join in plan.query.source.relation.tables):
        yield from _table(config, name)
    yield f"now {render_instant(int(time.time()) * 1_000_000)}"
    yield "cuttable no: which rows are late depends on the recorded micro-batches"
    yield f"pipeline {os.path.relpath(file, target.parent)} transform {plan.transform}"
    for batch in micro_batches(samples, PUSHES):
        for part in batch:
            yield from _push(config, plan, part)
    yield from ("", "end")


def _table(config: PipelineConfig, name: str) -> Iterator[str]:
    rows = as_python(sample_table(config, name))
    if len(rows) > _TABLE_ROWS:
        message = f"table `{name}` has {len(rows):,} rows, and a recorded file holds {_TABLE_ROWS} at most"
        raise config.error("TABLE_TOO_LARGE", message, "write the file by hand, with the rows that matter")
    yield f"table {name}: {config.tables[name].schema_}"
    yield from _laid_out([column.name for column in source_schema(config.tables[name]) or ()], rows)


def _push(config: PipelineConfig, plan: Plan, part: Part) -> Iterator[str]:
    rows, stream, partition = part
    header, listed = _header(config, plan, stream), _listed(rows)
    kept = [row for row in listed if row is not None]
    left_out = len(listed) - len(kept)
    yield ""
    yield f"push {stream}" + ("" if partition == "0" else f" shard {partition}")
    if left_out:
        yield f"{_MARGIN}# without {left_out} that cannot be written here: no JSON object"
    yield from _laid_out(header, kept)


def _header(config: PipelineConfig, plan: Plan, stream: str) -> list[str]:
    """The columns that the query reads; all if only Spark knows."""
    scans = [scan for scan in (plan.scan.streams if plan.scan else ()) if scan.stream == stream]
    read = {column.name for scan in scans for column in (*scan.columns, *scan.own)}
    declared = [column.name for column in source_schema(config.streams[stream]) or ()]
    return [name for name in declared if not scans or name in read]


def _listed(rows: Decoded) -> list[Mapping[str, object] | None]:
    """Rows as the source has them: a bad one with the value that does not fit, None if it is no object at all."""
    listed: list[Mapping[str, object] | None] = list(as_python(rows.table))
    for at, problem in enumerate(rows.problems):
        if problem is not None:
            listed[at] = _object(rows.events[at].as_py())
    return listed


def _object(text: str | None) -> Mapping[str, object] | None:
    try:
        found = json.loads(text or "")
    except ValueError:
        return None
    return found if isinstance(found, dict) and "_corrupt_record" not in found else None


def _laid_out(header: Sequence[str], rows: Sequence[Mapping[str, object]]) -> list[str]:
    """A table; JSON lines where a name or a text would break it."""
    cells = [[_cell(row.get(name)) for name in header] for row in rows]
    if any("\n" in cell or "\r" in cell for row in cells for cell in row) or any("|" in name for name in header):
        return [_MARGIN + json.dumps(dict(row), default=render, ensure_ascii=False) for row in rows]
    return [_MARGIN + line for line in lay_out(list(header), cells)]


def _cell(value: object) -> str:
    """Texts as they are, also those that look like an instant."""
    if not isinstance(value, str):
        return render(value)
    plain = value == value.strip() and value[:1] not in ("", "'", "[", "{", "#") and "|" not in value
    return value if plain and bare_value(value) == value else "'" + value.replace("'", "''") + "'"
