"""`windowpane repair` and `replay`: what becomes of each side row, and of each window before and after."""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from windowpane.cli.figures import output_width
from windowpane.config import find_pipeline
from windowpane.errors import ConfigError
from windowpane.plan.repairable import unrepairable
from windowpane.runtime.asking.asked import Asked, asked_transforms, counted, shown
from windowpane.runtime.location import store_of_file
from windowpane.runtime.repairing.asking import Asking
from windowpane.runtime.repairing.repairing import RepairOptions

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
    timeout: float = 600.0
    place: str | None = None
    """The checkpoint, instead of the one in the file."""
    stream: str | None = None

    def options(self) -> RepairOptions:
        return RepairOptions(self.sink, self.where, self.dry_run, self.stream)


def answer(path: Path | None, given: RepairArguments, *, as_json: bool) -> str:
    """The text to print."""
    transforms = list(asked_transforms(path, given.transform, given.place))
    done = _asking(path, given, _repairable(transforms)).repaired(given.timeout)
    return json.dumps(done, indent=2, ensure_ascii=False) if as_json else _text(done)


def replay(path: Path | None, given: RepairArguments, *, as_json: bool) -> str:
    """The text to print."""
    transforms = list(asked_transforms(path, given.transform, given.place))
    if len(transforms) > 1:
        names = ", ".join(asked.name for asked in transforms)
        raise ConfigError("TOO_MANY_TRANSFORMS", "a replay is of one transform", f"choose: --transform, one of {names}")
    done = _asking(path, given, transforms[0]).replayed(given.timeout)
    return json.dumps(done, indent=2, ensure_ascii=False) if as_json else _replayed(done)


def _asking(path: Path | None, given: RepairArguments, asked: Asked) -> Asking:
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    store = store_of_file(path or find_pipeline(), given.place)
    return Asking(asked, given.options(), store, lambda: _pipeline(asked, given.place), _say)


def _repairable(found: Sequence[Asked]) -> Asked:
    transforms = [asked for asked in found if asked.plan.keep_closed_us is not None]
    if not transforms:  # why not is said row by row
        transforms = [asked for asked in found if unrepairable(asked.plan) is not None]
    if not transforms:
        raise ConfigError(
            "NO_CLOSED_WINDOWS", "no transform keeps closed windows, so nothing can be repaired",
            'set keep_closed = "7d" on a transform: windows that close from then on are kept',
        )  # fmt: skip
    if len(transforms) > 1:
        names = ", ".join(asked.name for asked in transforms)
        raise ConfigError("TOO_MANY_TRANSFORMS", "a repair is of one transform", f"choose: --transform, one of {names}")
    return transforms[0]


def _pipeline(asked: Asked, place: str | None) -> Pipeline:
    from windowpane.runtime.pipeline import Pipeline  # noqa: PLC0415  # loads PySpark
    from windowpane.runtime.savepoints import with_checkpoint  # noqa: PLC0415

    return Pipeline(with_checkpoint(asked.config, place), (asked.plan,))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _text(done: dict[str, Any]) -> str:
    name, changes = done["transform"], done["changes"]
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in done["repaired"].items())
    lines = [f"{name}: finished repair {number}, which was cut short" for number in done["finished"]]
    if not done["repaired"]:
        lines.append(f"{name}: nothing to repair")
    else:
        would = "would repair" if done["dry_run"] else f"repair {done['repair']}:"
        rows = "row" if sum(done["repaired"].values()) == 1 else "rows"
        lines.append(
            f"{name}: {would} {kinds} {rows} in {counted(done['windows'], 'window')}, "
            f"{counted(len(changes), 'corrected result')}"
        )
    lines += _refused(done, "repaired")
    return "\n".join([*lines, *([_drawn(_changes(changes))] if changes else [])])


def _refused(done: dict[str, Any], what: str) -> list[str]:
    reasons = Counter(each["refused"] for each in done["refused"])
    return [f"  not {what}, {counted(count, 'row')}: {reason}" for reason, count in reasons.most_common()]


def _replayed(done: dict[str, Any]) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in done["replayed"].items())
    rows = "row" if sum(done["replayed"].values()) == 1 else "rows"
    told = f"{done['transform']}: nothing to replay"
    if done["replayed"]:
        would = "would replay" if done["dry_run"] else f"replay {done['replay']}:"
        told = (
            f"{done['transform']}: {would} {kinds} {rows}, in the first micro-batch after batch {done['after_batch']}"
        )
    left = [f"  {counted(done['left'], 'row')} more: replay again"] if done["left"] else []
    return "\n".join([told, *left, *_refused(done, "replayed")])


def _changes(changes: list[dict[str, Any]]) -> Table:
    """Each corrected window and group, with the values that it had before."""
    table = Table(title="windows before and after", title_justify="left")
    first = changes[0]
    for name in ("window", *first["group"], *first["after"]):
        table.add_column(name, justify="right")
    for each in changes[:SHOWN]:
        values = (_cell(name, each["before"], value) for name, value in each["after"].items())
        table.add_row(shown(each["window_start_us"]), *map(str, each["group"].values()), *values)
    if len(changes) > SHOWN:
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
