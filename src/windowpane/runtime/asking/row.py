"""`why --row`: which windows a row belongs to, which of them are open, and what would become of it now."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.windows import AlignedSpec, Session
from windowpane.errors import ConfigError
from windowpane.plan.eventtime.steps import TimeStep
from windowpane.plan.physical import PhysicalEventTime
from windowpane.runtime.asking.asked import Answer, Asked, now_us, shown, span
from windowpane.runtime.asking.input_rows import InputRows, chosen_stream

_SOURCES = {
    "sql_override": "the SQL (ON …)", "config_field": "event_time_field of the transform",
    "stream_column": "the stream's eventtime.column", "metadata": "metadata of the source",
    "processing_time": "processing time, because no column has one",
}  # fmt: skip


def why_row(asked: Asked, text: str, stream: str | None = None) -> Answer:
    """`text`: the row as JSON, by the columns of its stream."""
    row = _parsed(text)
    name = chosen_stream(asked, stream)
    reader = InputRows(asked, name)
    rows = reader.of_dicts([row])
    only = asked.plan.stages.input.time_sources
    source = next(iter(reader.evaluator.time_sources), only[0] if len(only) == 1 else None)
    lines: list[str] = []
    facts: dict[str, Any] = {"stream": name, "rows": []}
    if not rows.num_rows:
        return Answer(asked.name, ["The query makes no row of it: explode of an empty array gives none."], facts)
    if rows.num_rows > 1:
        lines.append(f"The query makes {rows.num_rows} rows of it (explode, or a union).")
    for number in range(rows.num_rows):
        more, fact = _fate(asked, rows.slice(number, 1), source)
        lines += more
        facts["rows"].append(fact)
    return Answer(asked.name, lines, facts)


def _parsed(text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except ValueError as bad:
        raise ConfigError(
            "BAD_JSON", f"--row is not JSON: {bad}", 'write it like \'{"k": 7, "ts": 1700000000000}\''
        ) from None
    if not isinstance(row, dict):
        raise ConfigError("BAD_JSON", "--row is not a JSON object", "write it like '{\"k\": 7}'")
    return row


def _fate(asked: Asked, row: pa.RecordBatch, source: str | None) -> tuple[list[str], dict[str, Any]]:
    """What would become of one row now."""
    event_us = row.column(c.EVENT_TIME)[0].as_py()
    error = row.column(c.ERROR)[0].as_py() if c.ERROR in row.schema.names else None
    if error is not None:
        detail = row.column(c.DETAIL)[0].as_py()
        told = f": {detail}" if detail else ""
        return [f"It would become an error row with the reason `{error}`{told}."], {"fate": "error", "reason": error}
    facts: dict[str, Any] = {"event_us": event_us, "time_source": source, "watermark_us": asked.watermark_us}
    lines = [f"Its event time is {shown(event_us)}, from {_column_of(asked, source)}."]
    if c.KEEP in row.schema.names and row.column(c.KEEP)[0].as_py() is not True:
        return [*lines, "WHERE excludes it: it would be counted as filtered."], facts | {"fate": "filtered"}
    if asked.finished:
        lines.append("The pipeline has ended gracefully: nothing takes the row any more.")
        return lines, facts | {"fate": "finished"}
    if asked.time is None:
        lines.append("The query uses processing time: the row counts in the windows that are open when it is read.")
        return lines, facts | {"fate": "aggregated"}
    more, fate = _judged(asked, event_us)
    lines += more + _ahead(asked, event_us) + _unknowable(asked)
    return lines, facts | fate


def _column_of(asked: Asked, source: str | None) -> str:
    """Which column gives the time."""
    words = _SOURCES.get(source or "", "the plan")
    steps = [step for step in _steps(asked) if _counts_as(step) == source and step.text]
    return f"`{steps[0].text}`, by {words}" if steps else words


def _steps(asked: Asked) -> list[TimeStep]:
    found: list[TimeStep] = []
    waiting = [asked.plan.stages.input.source]
    while waiting:
        node = waiting.pop()
        if isinstance(node, PhysicalEventTime):
            found += node.steps
        waiting += node.children()
    return found


def _counts_as(step: TimeStep) -> str:
    return "metadata" if step.origin == "source" else step.origin


def _judged(asked: Asked, event_us: int) -> tuple[list[str], dict[str, Any]]:
    watermark_us = asked.watermark_us
    at = f"The watermark is at {shown(watermark_us)}." if watermark_us is not None else "There is no watermark yet."
    spec = asked.window.spec if asked.window else None
    if asked.row_rule:
        if watermark_us is not None and event_us <= watermark_us:
            missed = f"It would be late by {span(watermark_us - event_us)}: rows are judged one by one here."
            return [at, missed], {"fate": "late", "missed_by_us": watermark_us - event_us}
        return [at, "It would be on time, and count once the watermark passes it."], {"fate": "aggregated"}
    if isinstance(spec, AlignedSpec):
        return _in_windows(asked, spec, event_us, at)
    if isinstance(spec, Session):
        return _in_session(asked, spec, event_us, at)
    return [at, "It would be taken."], {"fate": "aggregated"}


def _in_windows(asked: Asked, spec: AlignedSpec, event_us: int, at: str) -> tuple[list[str], dict[str, Any]]:
    windows, instant = spec.windows(), np.array([event_us])
    if windows.has_gaps and windows.in_gap(instant)[0]:
        return [at, "No window contains it: it would be counted as no_window."], {"fate": "no_window", "windows": []}
    starts, ends = windows.bounds(windows.open_for(instant)[1])
    bounds = sorted(zip(starts.tolist(), ends.tolist(), strict=True))
    found = [{"start_us": start, "end_us": end, "open": not asked.is_closed(end)} for start, end in bounds]
    lines = [at]
    for window in found[:20]:
        state = "open" if window["open"] else f"closed, at watermark {shown(asked.closing_us(window['end_us']))}"
        lines.append(f"Window {shown(window['start_us'])} to {shown(window['end_us'])}: {state}.")
    lines += [f"… and {len(found) - 20} more windows."] if len(found) > 20 else []
    taken = [window for window in found if window["open"]]
    if taken:
        lines.append(f"It would count in {len(taken)} of {len(found)}." if len(found) > 1 else "It would count in it.")
        return lines, {"fate": "aggregated", "windows": found}
    assert asked.watermark_us is not None
    missed_us = asked.watermark_us - asked.closing_us(bounds[-1][1])
    lines.append(
        f"It would be late: its last window closed {span(max(0, missed_us))} of event time ago. A lag of more than "
        f"{span(asked.lag_us + missed_us + 1)} (now {span(asked.lag_us)}) would have kept that open."
    )
    return lines, {"fate": "late", "windows": found, "missed_by_us": missed_us}


def _in_session(asked: Asked, spec: Session, event_us: int, at: str) -> tuple[list[str], dict[str, Any]]:
    end_us = event_us + spec.gap_us
    window = {"start_us": event_us, "end_us": end_us, "open": not asked.is_closed(end_us)}
    alone = f"Alone it is the session {shown(event_us)} to {shown(end_us)}"
    if window["open"]:
        return [at, f"{alone}, which would be open. It joins sessions of its group that overlap it."], {
            "fate": "aggregated", "windows": [window],
        }  # fmt: skip
    return [at, (f"{alone}, which would be closed. It would be late, unless a session of its group that is still open "
                "overlaps it; that needs the state, and so Spark.")], {
        "fate": "late_unless_session_open", "windows": [window],
    }  # fmt: skip


def _ahead(asked: Asked, event_us: int) -> list[str]:
    skew_us = asked.time.max_future_skew_us if asked.time else None
    if skew_us is None or event_us - now_us() <= skew_us:
        return []
    return [(f"It is {span(event_us - now_us())} ahead of the clock, more than max_future_skew ({span(skew_us)}): it "
            "would count, and not move the watermark.")]  # fmt: skip


def _unknowable(asked: Asked) -> list[str]:
    """What depends on the state, which only Spark reads."""
    declared = asked.config.transforms[asked.name]
    lines = []
    if declared.dedupe is not None:
        lines.append("Whether it is a duplicate depends on the state, and is not known here.")
    if declared.limits.max_groups is not None:
        lines.append(f"Whether its group exceeds max_groups ({declared.limits.max_groups:,}) depends on the state.")
    return lines
