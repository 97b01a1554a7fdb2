"""`windowpane backfill`: old input as a batch, its account, and how the stream compares with it."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from windowpane.cli.figures import accounting_table, instant, output_width, stage_line
from windowpane.config import find_pipeline, load_pipeline
from windowpane.core.time_range import TimeRange
from windowpane.errors import ConfigError
from windowpane.plan.backfill import BackfillPlan, parse_range
from windowpane.plan.pipeline import plan_pipeline
from windowpane.time import format_instant, parse_instant

if TYPE_CHECKING:
    from windowpane.runtime.backfill_check import Checked
    from windowpane.runtime.backfilling import Backfill, Backfilled
    from windowpane.runtime.difference_reasons import Explained

SHOWN = 20
"""How many differences the table lists; `--json` has all."""
_REASONS = {
    "late": "late rows",
    "evicted": "evicted groups",
    "not_closed": "not closed yet",
    "waiting": "waiting for the sink",
    "unknown": "unknown",
}


@dataclass(frozen=True)
class BackfillOptions:
    """What the command line says."""

    since: str
    until: str
    transform: str | None = None
    into: str | None = None
    check: bool = False
    dry_run: bool = False
    as_json: bool = False


def backfill(path: Path | None, options: BackfillOptions) -> tuple[str, bool]:
    """Gives the text to print, and False if `--check` has found differences."""
    if options.check and options.into is not None:
        raise ConfigError("BAD_OPTION", "--check writes nothing, so that --into has no effect", "leave one of them out")
    asked = _range(options)
    config = load_pipeline(path or find_pipeline())
    plans = plan_pipeline(config, options.transform)
    # py4j logs every connection that breaks when Spark stops; what matters reaches the user as an error.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    from windowpane.runtime.backfilling import Backfill  # noqa: PLC0415  # after the plan: mistakes need no Spark
    from windowpane.runtime.pipeline import Pipeline  # noqa: PLC0415

    job = Backfill(Pipeline(config, plans), asked, options.into, tell=_say)
    if options.dry_run:
        return _dry(job, as_json=options.as_json), True
    planned = job.plans()
    for each in planned:
        _say(_reading(each))
    _say("starting Spark …")
    # What console sinks print must not be between the lines of a JSON document.
    with redirect_stdout(sys.stderr if options.as_json else sys.stdout):
        return _checked(job, options) if options.check else _written(job, options)


def _range(options: BackfillOptions) -> TimeRange:
    now_us = time.time_ns() // 1000
    return parse_range(parse_instant(options.since, now_us), parse_instant(options.until, now_us))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _written(job: Backfill, options: BackfillOptions) -> tuple[str, bool]:
    done = job.carry_out()
    if options.as_json:
        transforms = {each.transform: _as_dict(each) for each in done}
        return json.dumps({"backfill": job.run_id, **_bounds(job.asked), "transforms": transforms}, indent=2), True
    return "\n\n".join(_as_text(each) for each in done), True


def _checked(job: Backfill, options: BackfillOptions) -> tuple[str, bool]:
    from windowpane.runtime.backfill_check import BackfillCheck  # noqa: PLC0415  # needs Spark

    done = BackfillCheck(job).carry_out()
    same = not any(each.differences for each in done)
    if options.as_json:
        transforms = {each.backfilled.transform: _check_as_dict(each) for each in done}
        return json.dumps({**_bounds(job.asked), "same": same, "transforms": transforms}, indent=2), same
    return "\n\n".join(_check_as_text(each) for each in done), same


def _dry(job: Backfill, *, as_json: bool) -> str:
    plans = job.plans()
    if not as_json:
        lines = [f"Backfill {job.run_id}", *map(_reading, plans)]
        return "\n".join([*lines, f"results go to {job.into or 'the sinks of the transforms'}"])
    described = {each.plan.transform: {"reads": _bounds(each.read), "because": list(each.unbounded)} for each in plans}
    return json.dumps(
        {"dry_run": True, "backfill": job.run_id, **_bounds(job.asked), "into": job.into, "transforms": described},
        indent=2,
    )


def _reading(planned: BackfillPlan) -> str:
    """`hot: reads rows from … to …`, or why it reads all."""
    name, read = planned.plan.transform, planned.read
    if read.from_us is None or read.to_us is None:
        return f"{name}: reads all rows, because of {'; '.join(planned.unbounded)}"
    return f"{name}: reads rows from {instant(read.from_us)} to {instant(read.to_us)}"


def _bounds(given: TimeRange) -> dict[str, str | None]:
    named = {"from": given.from_us, "to": given.to_us}
    return {name: None if us is None else format_instant(us) for name, us in named.items()}


def _as_dict(done: Backfilled) -> dict[str, Any]:
    return {
        "reads": _bounds(done.planned.read),
        "rows_outside": done.outside,
        "accounting": done.account.named(),
        "stages": {name: account.named() for name, account in done.stages.items()},
        "times": dict(done.times),
        "results": done.results,
        "seconds": done.seconds,
        "targets": [{"sink": each.sink, "place": each.place} for each in done.targets],
    }


def _as_text(done: Backfilled) -> str:
    lines = [_account(done)]
    rate = f"{(done.account.read + done.outside) / max(done.seconds, 0.001):,.0f} rows/s"
    results = f"{done.results:,} result{'' if done.results == 1 else 's'}"
    for each in done.targets:
        place = f" ({each.place})" if each.place else ""
        lines.append(f"{done.transform}: {results} to {each.sink}{place} in {done.seconds:.1f} s, {rate}")
    return "\n".join(lines)


def _account(done: Backfilled) -> str:
    parts = [_drawn(accounting_table(done.transform, done.account.named(), {}))]
    parts += [stage_line(done.transform, name, account.named()) for name, account in done.stages.items()]
    if done.outside:
        parts.append(f"{done.transform}: {done.outside:,} further rows lie outside the range and were skipped")
    clocked = done.times.get("processing_time", 0)
    if clocked:
        what = "rows have no readable event time: the stream gave them the time at which it read them"
        parts.append(f"{done.transform}: {clocked:,} {what}, which a batch cannot know")
    return "\n".join(parts)


def _check_as_dict(done: Checked) -> dict[str, Any]:
    return _as_dict(done.backfilled) | {
        "sink": done.sink,
        "compared": done.results,
        "reasons": done.reasons,
        "differences": [each.as_dict() for each in done.differences],
    }


def _check_as_text(done: Checked) -> str:
    name = done.backfilled.transform
    head = _account(done.backfilled)
    if not done.differences:
        return f"{head}\n{name}: stream = batch, {done.results:,} results compared with sink {done.sink}"
    counts = ", ".join(f"{count:,} {_REASONS[reason]}" for reason, count in done.reasons.items())
    differ = f"{len(done.differences):,} of {done.results:,} results differ in sink {done.sink}: {counts}"
    more = len(done.differences) - SHOWN
    rest = f"\n… and {more:,} more, which --json lists" if more > 0 else ""
    return f"{head}\n{_drawn(_differences(done.differences[:SHOWN]))}{rest}\n{name}: {differ}"


def _differences(found: Sequence[Explained]) -> Table:
    table = Table(title="batch and stream differ", title_justify="left", title_style="bold")
    for label in ("window and group", "batch", "stream", "why", "evidence"):
        table.add_column(label, overflow="fold")
    for each in found:
        difference = each.difference
        values = [_values(side, difference.key) for side in (difference.expected, difference.emitted)]
        table.add_row(_row(difference.key), *values, _REASONS[each.reason], each.evidence)
    return table


def _values(row: Mapping[str, Any] | None, key: Mapping[str, Any]) -> str:
    return "nothing" if row is None else _row({name: value for name, value in row.items() if name not in key})


def _row(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {'NULL' if value is None else value}" for name, value in row.items())


def _drawn(table: Table) -> str:
    text = StringIO()
    Console(file=text, width=output_width(), highlight=False, markup=False).print(table)
    return text.getvalue().rstrip()
