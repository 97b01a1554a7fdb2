"""`windowpane savepoint` and `savepoints`: keep a moment of a pipeline under a name, list and remove such moments."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from windowpane.checkpoint.savepoint_asking import get_savepoint
from windowpane.checkpoint.savepoints import Moment, Savepoint, Savepoints
from windowpane.cli.figures import instant, output_width
from windowpane.cli.status import checkpoint_store
from windowpane.errors import ConfigError


def split_arguments(given: list[str]) -> tuple[Path | None, str]:
    """`[PIPELINE.TOML] NAME`."""
    if len(given) > 2:
        hint = "windowpane savepoint [PIPELINE.TOML] NAME"
        raise ConfigError("BAD_OPTION", f"savepoint takes a file and a name, not {len(given)} arguments", hint)
    return (Path(given[0]) if len(given) > 1 else None), given[-1]


def take(path: Path | None, name: str, place: str | None, timeout: float, *, as_json: bool) -> str:
    """Take a savepoint of a pipeline that runs or does not. Gives the text to print."""
    taken = get_savepoint(checkpoint_store(path, place), name, timeout)
    if as_json:
        return json.dumps(_as_dict(taken), indent=2)
    moments = [f"  {job}: {_described(moment)}" for job, moment in taken.moments.items()]
    start = f"To start another checkpoint from it: windowpane run --from {name} --checkpoint FOLDER"
    return "\n".join([f"savepoint {name}, {_size(taken.size)}:", *moments, start])


def delete(path: Path | None, name: str, place: str | None, *, as_json: bool) -> str:
    """Remove a savepoint. Gives the text to print."""
    Savepoints(checkpoint_store(path, place)).delete(name)
    return json.dumps({"removed": name}, indent=2) if as_json else f"removed savepoint {name}"


def show(path: Path | None, place: str | None, *, as_json: bool) -> str:
    """All savepoints of a pipeline, oldest first."""
    store = checkpoint_store(path, place)
    found = Savepoints(store).all()
    if as_json:
        return json.dumps([_as_dict(each) for each in found], indent=2)
    if not found:
        return f"no savepoints in {store.address()}"
    table = Table()
    for label in ("name", "taken", "size", "job", "batch", "planned at", "watermark", "rows read"):
        table.add_column(label, justify="right" if label in ("size", "batch", "rows read") else "left")
    for each in found:
        head = [each.name, instant(each.taken_us)[:19], _size(each.size)]
        for job, moment in each.moments.items():
            table.add_row(*head, job, *_cells(moment))
            head = ["", "", ""]
    text = StringIO()
    Console(file=text, width=output_width(), highlight=False, markup=False).print(table)
    return text.getvalue().rstrip()


def _as_dict(savepoint: Savepoint) -> dict[str, Any]:
    return {
        "name": savepoint.name,
        "taken_us": savepoint.taken_us,
        "bytes": savepoint.size,
        "jobs": {job: vars(moment) for job, moment in savepoint.moments.items()},
    }


def _described(moment: Moment) -> str:
    if moment.batch_id < 0:
        return "before its first micro-batch"
    at = f"batch {moment.batch_id}, planned at {_instant(moment.clock_us)}"
    return f"{at}, {moment.rows:,} rows read, watermark {_instant(moment.watermark_us)}"


def _cells(moment: Moment) -> list[str]:
    batch = str(moment.batch_id) if moment.batch_id >= 0 else "none yet"
    return [batch, _instant(moment.clock_us), _instant(moment.watermark_us), f"{moment.rows:,}"]


def _instant(at_us: int | None) -> str:
    return "none yet" if at_us is None else instant(at_us)


def _size(count: int) -> str:
    """In the largest unit of which there is at least one."""
    amount, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:,.1f} {units[0]}" if units[0] != "bytes" else f"{count} bytes"
