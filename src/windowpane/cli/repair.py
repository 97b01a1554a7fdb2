"""`windowpane repair`: what becomes of each side row, and of each window before and after."""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from windowpane.cli.figures import output_width
from windowpane.errors import ConfigError
from windowpane.runtime.asking.asked import Asked, asked_transforms, counted, shown
from windowpane.runtime.repairing.repairing import Repair, Repaired, RepairOptions

if TYPE_CHECKING:
    from windowpane.runtime.pipeline import Pipeline

SHOWN = 20


@dataclass(frozen=True)
class RepairArguments:
    """What the command line has."""

    sink: str
    where: str | None
    dry_run: bool
    transform: str | None


def answer(path: Path | None, given: RepairArguments, *, as_json: bool) -> str:
    """The text to print."""
    transforms = [asked for asked in asked_transforms(path, given.transform) if asked.plan.keep_closed_us is not None]
    if not transforms:
        raise ConfigError(
            "NO_CLOSED_WINDOWS", "no transform keeps closed windows, so nothing can be repaired",
            'set keep_closed = "7d" on a transform: windows that close from then on are kept',
        )  # fmt: skip
    if len(transforms) > 1:
        names = ", ".join(asked.name for asked in transforms)
        raise ConfigError("TOO_MANY_TRANSFORMS", "a repair is of one transform", f"choose: --transform, one of {names}")
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    (asked,) = transforms
    options = RepairOptions(given.sink, given.where, given.dry_run)
    done = Repair(asked, options, lambda: _pipeline(asked), _say).carry_out()
    return json.dumps(done.as_dict(), indent=2, default=str, ensure_ascii=False) if as_json else _text(done)


def _pipeline(asked: Asked) -> Pipeline:
    from windowpane.runtime.pipeline import Pipeline  # noqa: PLC0415  # loads PySpark

    return Pipeline(asked.config, (asked.plan,))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _text(done: Repaired) -> str:
    folded = done.folded
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in done.repaired.items())
    lines = [f"{done.transform}: finished repair {number}, which was cut short" for number in done.finished]
    if not folded.taken:
        lines.append(f"{done.transform}: nothing to repair")
    else:
        would = "would repair" if done.dry_run else f"repair {done.number}:"
        lines.append(
            f"{done.transform}: {would} {kinds} in {counted(folded.windows, 'window')}, "
            f"{counted(len(folded.changes), 'corrected result')}"
        )
    reasons = Counter(each.refused for each in folded.refused)
    lines += [f"  not repaired, {counted(count, 'row')}: {reason}" for reason, count in reasons.most_common()]
    return "\n".join([*lines, *([_drawn(_changes(done))] if folded.taken else [])])


def _changes(done: Repaired) -> Table:
    """Each corrected window and group, with the values that it had before."""
    table = Table(title="windows before and after", title_justify="left")
    first = done.folded.changes[0]
    for name in ("window", *first["group"], *first["after"]):
        table.add_column(name, justify="right")
    for each in done.folded.changes[:SHOWN]:
        values = (_cell(name, each["before"], value) for name, value in each["after"].items())
        table.add_row(shown(each["window_start_us"]), *map(str, each["group"].values()), *values)
    if len(done.folded.changes) > SHOWN:
        table.caption = f"the first {SHOWN}; --json has all"
    return table


def _cell(name: str, before: dict[str, Any] | None, value: object) -> str:
    if before is None:
        return f"{value} (new)"
    return str(value) if before[name] == value else f"{before[name]} → {value}"


def _drawn(table: Table) -> str:
    text = StringIO()
    Console(file=text, width=output_width(), highlight=False, markup=False).print(table)
    return text.getvalue().rstrip()
