"""Checks of the sinks: each has the rows that were emitted, once, and the emissions of a window count up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.repairs import RepairRecord
from windowpane.checkpoint.transform import suffix_of
from windowpane.config import METRICS_ONLY, REINJECT
from windowpane.errors import WindowpaneError
from windowpane.formats import sink_format
from windowpane.outcomes import SIDE_KINDS
from windowpane.remote.access import Access
from windowpane.runtime.asking.asked import Asked, counted
from windowpane.runtime.asking.side_files import is_readable, read_delivered
from windowpane.runtime.asking.sink_rows import rows_by_batch, written_files
from windowpane.runtime.auditing.check import Check, skipped
from windowpane.runtime.auditing.ledger_checks import repeated


def sink_checks(asked: Asked) -> Iterator[Check]:
    """For each sink of results and of side rows."""
    declared = asked.config.transforms[asked.name]
    repairs = asked.checkpoint.repairs.all()
    for name in declared.sinks:
        yield _results(asked, name)
        if repairs:
            yield _repaired(asked, name, repairs)
        yield _epochs(asked, name)
    routed: dict[str, list[str]] = {}
    for kind, route in declared.side_output.routes().items():
        if route.last not in (METRICS_ONLY, REINJECT):
            routed.setdefault(route.last, []).append(kind)
    for name, kinds in routed.items():
        yield _side_rows(asked, name, kinds)


def _results(asked: Asked, sink: str) -> Check:
    title = f"results in {sink}"
    declared = asked.config.sinks.get(sink)
    if declared is None:
        return skipped(title, "the sink was given from Python")
    try:
        found = _found_rows(asked, sink, side=False)
    except WindowpaneError as failed:
        return skipped(title, f"it cannot be read: {failed.message}")
    if found is None:
        return skipped(title, f"a sink of the format {declared.format} cannot be read back")
    waiting = set(asked.checkpoint.result_outbox(sink).pending())
    replaces = "update" in sink_format(declared.format).modes and declared.mode != "append" and _replaces(asked)
    findings, emitted, there = list[str](), 0, 0
    for entry in asked.entries:
        if entry.batch_id in waiting:
            continue
        wanted, exact = _written_rows(asked, entry)
        got = found.get(entry.batch_id, 0)
        emitted, there = emitted + wanted, there + got
        if got > wanted or (exact and not replaces and got != wanted):
            findings.append(f"batch {entry.batch_id}: {wanted:,} rows were emitted, and the sink has {got:,}")
    last = asked.last.batch_id if asked.last else -1
    beyond = sorted(batch for batch in found if batch > last)
    findings += [
        f"the sink has {found[batch]:,} rows of batch {batch}, which the ledger does not have" for batch in beyond
    ]
    detail = f"{emitted:,} rows emitted by {len(asked.entries):,} batches, {there:,} in the sink"
    if waiting:
        detail += f"; {len(waiting):,} batches wait in the checkpoint for the sink"
    if replaces:
        detail += "; later emissions replace earlier ones"
    return Check(title, detail, findings)


def _repaired(asked: Asked, sink: str, repairs: Sequence[RepairRecord]) -> Check:
    """Each repair has as many rows as it corrected, and no side record is in two repairs."""
    title = f"repairs in {sink}"
    records = [record for repair in repairs for record in repair.records]
    records += [record for replay in asked.checkpoint.replays.all() for record in replay.records]
    twice = repeated(records)
    findings = [f"side record {record} is in more than one repair or replay" for record in twice]
    begun = [repair.number for repair in repairs if repair.state == "begun"]
    findings += [f"repair {number} was cut short: windowpane repair finishes it" for number in begun]
    declared = asked.config.sinks.get(sink)
    exact = not asked.plan.stages.result.steps
    if declared is not None and sink_format(declared.format).takes_back == "files":
        found = _by_batch(rows_by_batch(asked, sink, repaired=True))
        for repair in repairs:
            got = found.get(repair.number, 0)
            if repair.number not in begun and (got > repair.results or (exact and got != repair.results)):
                findings.append(f"repair {repair.number}: {repair.results:,} results, and the sink has {got:,}")
    rows = sum(sum(repair.repaired.values()) for repair in repairs)
    return Check(title, f"{counted(len(repairs), 'repair')} of {counted(rows, 'row')}", findings)


def _replaces(asked: Asked) -> bool:
    """Whether some windows were emitted more than once."""
    return _updates(asked) or bool(asked.checkpoint.repairs.all())


def _updates(asked: Asked) -> bool:
    aggregation = asked.plan.stages.window.aggregation
    return aggregation is not None and aggregation.emit.mode != "close"


def _written_rows(asked: Asked, entry: Entry) -> tuple[int, bool]:
    """How many rows a batch gave to its sinks, and whether that is exact: HAVING and LIMIT may leave less."""
    if entry.written is not None:
        return entry.written, True
    result = asked.plan.stages.result
    return entry.results, not result.steps and all(output.expr.text.isidentifier() for output in result.outputs)


def _found_rows(asked: Asked, sink: str, *, side: bool) -> dict[int, int] | None:
    """Rows by batch, of all runs and versions of the transform; None if the sink cannot be read."""
    kind = sink_format(asked.config.sinks[sink].format)
    if kind.takes_back == "files":
        return _by_batch(rows_by_batch(asked, sink, side=side))
    from windowpane.runtime.routes import build_sink  # noqa: PLC0415  # loads PySpark

    made, access = (
        build_sink(asked.config, sink, asked.config.sinks[sink]),
        Access.of_spark(asked.config.spark.spark_config),
    )
    runs, total = asked.checkpoint.runs(), Counter[int]()
    for number in range(1, asked.checkpoint.version + 1):
        label = f"{asked.name}{suffix_of(number)}"
        found = made.count_rows(access, runs=runs, transform=label, side=side)
        if found is None:
            return None
        total.update(found)
    return dict(total)


def _by_batch(counts: Mapping[tuple[str, int], int]) -> dict[int, int]:
    found: Counter[int] = Counter()
    for (_, batch_id), count in counts.items():
        found[batch_id] += count
    return dict(found)


def _epochs(asked: Asked, sink: str) -> Check:
    """Every window and group has the emissions 1, 2, … up to its last, each once."""
    title = f"epochs in {sink}"
    declared = asked.config.sinks.get(sink)
    if declared is None or sink_format(declared.format).takes_back != "files":
        return skipped(title, "only files keep all emissions; a table has the last one of each window and group")
    result = asked.plan.stages.result
    at = {output.expr.text: output.name for output in reversed(result.outputs)}
    places = [at.get(name) for name in ("window_start", "window_end", "window_id", "trigger_time") if name in at]
    keys = [at.get(key.name) for key in result.keys]
    if not places or not result.grouped or None in keys:
        return skipped(title, "the results do not name their window and group")
    if result.steps:
        return skipped(title, "HAVING, QUALIFY or LIMIT may leave out emissions")
    epoch = at.get("emit_epoch")
    seen: dict[tuple[str, ...], list[int]] = {}
    for file in written_files(asked, sink):
        for row in file.rows():
            place = tuple(str(row.get(str(name))) for name in (*places, *keys))
            seen.setdefault(place, []).append(int(row[epoch]) if epoch else 1)
    if _updates(asked) and epoch is None:
        return skipped(title, "windows are emitted several times, and the results do not have emit_epoch")
    findings = [
        f"{', '.join(place)}: emissions {sorted(epochs)}"
        for place, epochs in seen.items() if sorted(epochs) != list(range(1, len(epochs) + 1))
    ]  # fmt: skip
    return Check(title, f"{len(seen):,} windows and groups, {sum(map(len, seen.values())):,} emissions", findings)


def _side_rows(asked: Asked, sink: str, kinds: Sequence[str]) -> Check:
    title = f"side rows in {sink}"
    declared = asked.config.sinks.get(sink)
    if declared is None or sink_format(declared.format).takes_back != "files" or not is_readable(declared):
        return skipped(title, "only side records in files of json or parquet are read here")
    found: dict[tuple[int, str], int] = Counter()
    for record in read_delivered(asked, sink):
        found[record.batch_id or 0, record.kind] += 1
    waiting = set(asked.checkpoint.outbox(sink).pending())
    findings, total = list[str](), 0
    for entry in asked.entries:
        if entry.batch_id in waiting:
            continue
        for kind in kinds:
            wanted = entry.side.get(kind, 0) - entry.dropped.get(kind, 0)
            got = found.get((entry.batch_id, kind), 0)
            total += got
            # Results that cannot be computed become error records without a row.
            if got < wanted or (kind != "error" and got != wanted):
                findings.append(f"batch {entry.batch_id}: {wanted:,} {kind} rows were routed, the sink has {got:,}")
    known = [kind for kind in SIDE_KINDS if kind in kinds]
    detail = f"{total:,} records of {', '.join(known)}"
    if waiting:
        detail += f"; {len(waiting):,} batches wait in the checkpoint"
    return Check(title, detail, findings)


def emitted_rows(entries: Sequence[Entry]) -> dict[str, Any]:
    """For the report: what the kept batches gave."""
    return {
        "results": sum(entry.results for entry in entries),
        "rows": sum(e.accounting.get("in_", 0) for e in entries),
    }
