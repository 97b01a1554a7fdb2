"""`windowpane inspect`: a checkpoint in words, as tables, or as JSON."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.transform import Checkpoint
from windowpane.cli.figures import MEANINGS, instant, output_width, proof, waiting_results
from windowpane.config import PipelineConfig, find_pipeline, load_pipeline
from windowpane.plan.pipeline import plan_pipeline
from windowpane.runtime import inspection
from windowpane.runtime.location import store_at, store_of_file

SHOWN_WINDOWS = 40


@dataclass(frozen=True)
class InspectOptions:
    """What the command line asks for. `ledger`: how many batches to list, None for the state instead."""

    transform: str | None = None
    ledger: int | None = None
    state: bool = True
    as_json: bool = False


def inspect(path: Path | None, options: InspectOptions) -> str:
    """The text to print. The state needs the pipeline's file, which says how to read it, and Spark."""
    is_checkpoint = path is not None and (path.is_dir() or "://" in _address(path))
    file = None if is_checkpoint else path or find_pipeline()
    config = load_pipeline(file) if file is not None and options.state and options.ledger is None else None
    store = store_of_file(file) if file is not None else store_at(_address(path or Path()), Path())
    found = inspection.only(inspection.find_transforms(store), options.transform)
    held = _held(config, found, options)
    if options.as_json:
        return json.dumps({name: _as_dict(each, held.get(name), options) for name, each in found.items()}, indent=2)
    return "\n\n".join(_as_text(name, each, held.get(name), options) for name, each in found.items())


def _address(path: Path) -> str:
    """A folder, or the address of a store, of which a path has lost a slash."""
    return re.sub(r"^([a-z][a-z0-9]+):/+(?=[^/])", r"\1://", str(path))


def _held(
    config: PipelineConfig | None, found: dict[str, Checkpoint], options: InspectOptions
) -> dict[str, list[dict[str, Any]]]:
    if config is None:
        return {}
    plans = plan_pipeline(config, options.transform)
    from windowpane.runtime.pipeline import Pipeline  # noqa: PLC0415  # Spark is loaded when it is needed

    return inspection.read_state_of(Pipeline(config, plans), found)


def _as_dict(checkpoint: Checkpoint, held: list[dict[str, Any]] | None, options: InspectOptions) -> dict[str, Any]:
    document = inspection.describe_checkpoint(checkpoint)
    if options.ledger is not None:
        document["ledger"] = inspection.ledger_as_dicts(inspection.ledger_entries(checkpoint, options.ledger))
    return document if held is None else document | {"state": held}


def _as_text(name: str, checkpoint: Checkpoint, held: list[dict[str, Any]] | None, options: InspectOptions) -> str:
    if options.ledger is not None:
        return _drawn(_ledger_table(name, inspection.ledger_entries(checkpoint, options.ledger)))
    document = inspection.describe_checkpoint(checkpoint)
    text = "\n".join([name, *(_fact(label, value) for label, value in _facts(document))])
    return text if held is None else f"{text}\n\n{_drawn(_state_table(held))}"


def _fact(label: str, value: str) -> str:
    return textwrap.fill(
        value, output_width(), initial_indent=f"  {label:<14}", subsequent_indent=" " * 16, break_long_words=False
    )


def _facts(document: dict[str, Any]) -> Iterable[tuple[str, str]]:
    yield "plan", f"{document['plan_id']}{', finished' if document['finished'] else ''}"
    yield "sql", document["sql"]
    yield "shards", str(document["shards"])
    yield "last batch", f"{document['last_batch']}, committed {document['committed_batch']}"
    watermark = document["watermark_us"]
    yield "watermark", "none yet" if watermark is None else instant(watermark)
    for partition, us in document["source_partitions"].items():
        holds = "  holds the watermark" if partition == document["held_by"] else ""
        yield "", f"{partition} at {instant(us)}{holds}"
    yield "open windows", f"{document['open_windows']:,}"
    if document["totals"]:
        yield "accounting", proof(document["totals"])
    for name, sink in document["waiting_results"].items():
        yield f"to {name}", f"{waiting_results(sink)} in {sink['address']}"
    yield from ((name, proof(totals)) for name, totals in document.get("stages", {}).items())


def _state_table(held: list[dict[str, Any]]) -> Table:
    """Shards are added up: a window's groups are spread over all of them."""
    summed: dict[tuple[Any, ...], list[int]] = {}
    for item in held:
        total = summed.setdefault((item["operator"], item["what"], item["start_us"], item["end_us"]), [0, 0, 0])
        total[0] += item["count"]
        total[1] += item["size"]
        total[2] += 1
    table = Table(title="state", title_justify="left", show_footer=len(summed) > 0)
    for label in ("kept", "from", "to"):
        table.add_column(label)
    table.add_column("count", justify="right", footer=f"{sum(total[0] for total in summed.values()):,}")
    table.add_column("bytes", justify="right", footer=f"{sum(total[1] for total in summed.values()):,}")
    table.add_column("shards", justify="right")
    for (operator, what, start, end), (count, size, shards) in list(summed.items())[:SHOWN_WINDOWS]:
        bounds = ("" if us is None else instant(us) for us in (start, end))
        window = operator.partition(" of ")[2]
        table.add_row(f"{what} of {window}" if window else what, *bounds, f"{count:,}", f"{size:,}", str(shards))
    if len(summed) > SHOWN_WINDOWS:
        table.caption = f"the first {SHOWN_WINDOWS}; --json has all"
    return table


def _ledger_table(name: str, entries: list[Entry]) -> Table:
    kinds = [kind for kind in MEANINGS if any(entry.accounting.get(kind) for entry in entries)]
    table = Table(title=f"{name}: the last {len(entries)} batches", title_justify="left")
    for label in ("batch", "in", *kinds, "out", "open", "s"):
        table.add_column(label, justify="right")
    table.add_column("watermark")
    for entry in entries:
        counts = [entry.accounting["in_"], *(entry.accounting.get(kind, 0) for kind in kinds)]
        cells = [*counts, entry.results, entry.open_windows]
        watermark = "" if entry.watermark_us is None else instant(entry.watermark_us)
        last = f"{entry.batch_id}{' end' if entry.final else ''}"
        table.add_row(last, *(f"{cell:,}" for cell in cells), f"{entry.seconds:.1f}", watermark)
    return table


def _drawn(table: Table) -> str:
    text = StringIO()
    Console(file=text, width=output_width(), highlight=False, markup=False).print(table)
    return text.getvalue().rstrip()
