"""`why --late`: which batch judged a late row, what had moved the watermark so far, what would have kept the row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from windowpane.checkpoint.ledger import Entry
from windowpane.errors import ConfigError
from windowpane.runtime.asking.asked import Answer, Asked, counted, shown, span
from windowpane.runtime.asking.side_files import SideRecord, instant_of, read_side_records, side_sinks

_HOUR_US = 3_600_000_000


def find_record(asked: Asked, text: str) -> SideRecord:
    """A record as JSON, a file with one, a line `FILE:12` of a file, or an id `SINK:BATCH:LINE`; ConfigError if not."""
    given = text.strip()
    if given.startswith("{"):
        return SideRecord(_record(given, "--late"))
    name, _, number = given.rpartition(":")
    for path, line in ((given, 1), (name, int(number) if number.isdigit() else 0)):
        if path and line and Path(path).is_file():
            return SideRecord(_line(Path(path), line))
    if given.count(":") == 2:
        found = next((each for each in read_side_records(asked) if each.id == given), None)
        if found is not None:
            return found
    known = side_sinks(asked)
    hint = 'give the record as JSON, a file, a line of a file (late.json:12), or an id ("SINK:BATCH:LINE")'
    if known.unreadable:
        hint += f"; {', '.join(known.unreadable)} cannot be read here, so give its records as JSON"
    raise ConfigError("NO_SIDE_RECORD", f"there is no side record `{text}`", hint)


def _line(path: Path, number: int) -> dict[str, Any]:
    lines = path.read_text(encoding="utf-8").splitlines()
    if number > len(lines):
        raise ConfigError("NO_SIDE_RECORD", f"{path} has {counted(len(lines), 'line')}, and no line {number}")
    if number == 1 and len(lines) > 1 and lines[0].strip() == "{":  # one record over several lines
        return _record("\n".join(lines), str(path))
    return _record(lines[number - 1], f"{path}, line {number}")


def _record(text: str, where: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as bad:
        raise ConfigError("BAD_JSON", f"{where} is not JSON: {bad}", "a side record is one JSON object") from None
    if not isinstance(content, dict) or "kind" not in content:
        raise ConfigError(
            "NO_SIDE_RECORD", f"{where} is not a side record: it has no `kind`", "see docs/side-output.md"
        )
    return content


def why_late(asked: Asked, text: str) -> Answer:
    record = find_record(asked, text)
    transform = record.content.get("transform")
    if transform not in (None, asked.name):
        raise ConfigError(
            "NO_SIDE_RECORD", f"the record is of transform `{transform}`, not `{asked.name}`",
            f"ask with --transform {transform}",
        )  # fmt: skip
    if record.kind != "late":
        return _other_kind(asked, record)
    watermark_us, event_us = instant_of(record.content.get("watermark")), record.event_us
    if watermark_us is None or event_us is None:
        raise ConfigError(
            "NO_SIDE_RECORD", "the record has no `watermark` or no `event_time`", "see docs/side-output.md"
        )
    chance_us = _last_chance(asked, record, event_us)
    missed_us = watermark_us - chance_us
    facts: dict[str, Any] = {
        "kind": "late", "reason": record.reason, "event_us": event_us, "watermark_us": watermark_us,
        "last_chance_us": chance_us, "missed_by_us": missed_us,
    }  # fmt: skip
    lines = [_missed(asked, record, event_us, watermark_us, chance_us)]
    batch = _batch(asked, record)
    lines += _judged(record, batch, facts)
    lines += _kept_by(asked, missed_us, facts)
    lines += _others(asked, record, facts)
    return Answer(asked.name, lines, facts)


def _other_kind(asked: Asked, record: SideRecord) -> Answer:
    detail = record.content.get("error_detail")
    told = f": {detail}" if detail else ""
    facts = {"kind": record.kind, "reason": record.reason}
    return Answer(asked.name, [(f"The row is not late. It is of the kind `{record.kind}`, because of "
                               f"`{record.reason}`{told}.")], facts)  # fmt: skip


def _last_chance(asked: Asked, record: SideRecord, event_us: int) -> int:
    """The watermark that makes the row late."""
    if record.reason == "allowed_lateness_exceeded" and record.window is not None:
        return asked.closing_us(record.window[1])
    return event_us


def _missed(asked: Asked, record: SideRecord, event_us: int, watermark_us: int, chance_us: int) -> str:
    missed = span(watermark_us - chance_us)
    if record.window is None or record.reason == "behind_watermark":
        return (
            f"The row is of {shown(event_us)}, and the watermark was at {shown(watermark_us)}, {missed} ahead of it. "
            "Rows are judged one by one here."
        )
    start_us, end_us = record.window
    late = f" plus the allowed lateness of {span(asked.lateness_us)}" if asked.lateness_us else ""
    return (
        f"The row is of {shown(event_us)}. Its last window, {shown(start_us)} to {shown(end_us)}, had closed: the "
        f"watermark was at {shown(watermark_us)}, {missed} past the window's end{late}."
    )


def _batch(asked: Asked, record: SideRecord) -> tuple[Entry | None, Entry] | None:
    """The batch that judged the row, with the one before it: its timestamp is the row's processing time."""
    at_us = instant_of(record.content.get("processing_time"))
    before: Entry | None = None
    for entry in asked.entries:
        if entry.clock_us == at_us and entry.accounting.get("in_"):
            return before, entry
        before = entry
    return None


def _judged(record: SideRecord, batch: tuple[Entry | None, Entry] | None, facts: dict[str, Any]) -> list[str]:
    if batch is None:
        at = shown(instant_of(record.content.get("processing_time")))
        return [f"The ledger no longer has the batch that judged it, at {at}. It keeps the last 1,000."]
    before, entry = batch
    late = entry.accounting.get("late", 0)
    lines = [
        f"Batch {entry.batch_id} judged it, at {shown(entry.clock_us)}, with {counted(late - 1, 'other late row')}."
    ]
    facts |= {"batch_id": entry.batch_id, "late_in_batch": late}
    if before is None or not before.maxima:
        return lines
    slowest = before.held_by or min(before.maxima, key=lambda name: before.maxima[name])
    fastest = max(before.maxima, key=lambda name: before.maxima[name])
    facts |= {"moved_by": slowest, "maxima": before.maxima}
    if slowest not in before.maxima:
        return lines
    moved = f"`{slowest}` had moved the watermark so far, with a row of {shown(before.maxima[slowest])}"
    if len(before.maxima) > 1:
        moved += f"; `{fastest}` was furthest, at {shown(before.maxima[fastest])}"
    return [*lines, f"{moved}."]


def _kept_by(asked: Asked, missed_us: int, facts: dict[str, Any]) -> list[str]:
    """A row is late if the watermark has reached its last chance, so more than the difference is needed."""
    lag_us, lateness_us = asked.lag_us + missed_us + 1, asked.lateness_us + missed_us + 1
    facts |= {"kept_by_lag_us": lag_us}
    kept = f"A lag of more than {span(lag_us)} (now {span(asked.lag_us)}) would have kept it"
    if not asked.row_rule and asked.window is not None:
        facts |= {"kept_by_allowed_lateness_us": lateness_us}
        kept += f", or an allowed lateness of more than {span(lateness_us)} (now {span(asked.lateness_us)})"
    return [f"{kept}. windowpane tune shows what that costs."]


def _others(asked: Asked, record: SideRecord, facts: dict[str, Any]) -> list[str]:
    at_us = instant_of(record.content.get("processing_time"))
    if at_us is None:
        return []
    hour_us = at_us // _HOUR_US * _HOUR_US
    inside = [entry for entry in asked.entries if hour_us <= entry.clock_us < hour_us + _HOUR_US]
    late = sum(entry.accounting.get("late", 0) for entry in inside)
    read = sum(entry.accounting.get("in_", 0) for entry in inside)
    facts |= {"late_in_hour": late, "read_in_hour": read}
    share = f", {late / read:.2%} of {read:,} rows" if read else ""
    return [f"In the hour from {shown(hour_us)}, {counted(late, 'row')} came late{share}."]
