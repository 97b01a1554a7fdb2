"""`windowpane status`, `drain` and `stop`: a pipeline that runs in another process, seen through its checkpoint."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from windowpane.checkpoint.control import Request, ask
from windowpane.checkpoint.status import StatusFile
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import transform_checkpoint
from windowpane.cli.figures import MEANINGS, instant, lag, proof, waiting_results
from windowpane.config import find_pipeline
from windowpane.errors import StateError
from windowpane.runtime.location import store_of_file
from windowpane.runtime.status import read_status

STALE_SECONDS = 30
_ENDED = {
    "stopped": "Stopped. Open windows stay in the checkpoint; windowpane run resumes from there.",
    "finished": "Ended gracefully: every open window was emitted, and the checkpoint is finished.",
}


def show_status(path: Path | None, place: str | None = None, *, as_json: bool) -> str:
    """The text to print; StateError when nothing has ever run there."""
    store = checkpoint_store(path, place)
    status, address = StatusFile(store), store.address()
    document = read_status(store)
    if document is None:
        raise never_run(address)
    if as_json:
        return json.dumps(document, indent=2)
    try:
        head = _headline(document, running=document["running"])
        blocks = [_transform(name, each, store) for name, each in document["transforms"].items()]
    except (LookupError, TypeError, ValueError, AttributeError) as broken:
        raise status.damaged(repr(broken)) from broken
    return "\n".join([head, f"checkpoint {address}", *(blocks or ["no micro-batch has finished yet"])])


def never_run(address: str) -> StateError:
    """The error for a checkpoint without a status."""
    return StateError(
        "NEVER_RUN", f"nothing has run on the checkpoint {address} yet", "windowpane run starts the pipeline"
    )


def send_request(path: Path | None, request: Request, timeout: float, place: str | None = None) -> str:
    """Ask the running pipeline to end; gives what to print once it has."""
    store = checkpoint_store(path, place)
    state = ask(store, request, timeout)
    if state not in _ENDED:
        error = (StatusFile(store).read() or {}).get("error") or {}
        raise StateError(
            "RUN_FAILED", f"the pipeline on {store.address()} failed: {error.get('message', 'no reason was recorded')}"
        )
    return _ENDED[state]


def checkpoint_store(path: Path | None, place: str | None = None) -> Store:
    """The checkpoint of the pipeline that `path` names, or of the nearest one. `place`: instead of the file's."""
    return store_of_file(path or find_pipeline(), place)


def _headline(document: dict[str, Any], *, running: bool) -> str:
    age = time.time() - document["updated_us"] / 1e6
    if running:
        stale = f", but has not reported for {age:.0f} s" if age > STALE_SECONDS else ""
        return f"{document['state']}, process {document['pid']}, since {instant(document['started_us'])[:19]}{stale}"
    if document["state"] in ("starting", "running", "draining"):
        return f"not running: process {document['pid']} ended unexpectedly; windowpane run resumes from here"
    error = f": {document['error']['message']}" if document["error"] else ""
    return f"not running, {document['state']} at {instant(document['updated_us'])[:19]}{error}"


def _transform(name: str, each: dict[str, Any], store: Store | None = None) -> str:
    totals = each["totals"]
    watermark = "none yet"
    if each["watermark_us"] is not None:
        held = f", held by {each['held_by']}" if each["held_by"] else ""
        watermark = f"{instant(each['watermark_us'])}, {lag(each['watermark_lag_us'])}{held}"
    places = ", ".join(f"{totals[kind]:,} {kind}" for kind in MEANINGS if totals.get(kind))
    rows = {
        "last batch": f"{each['batch_id']}: {each['rows']:,} rows in, {each['results']:,} out, {each['seconds']:.1f} s",
        "rows": f"{totals['in']:,} in total, {each['rows_per_second']:,.0f} per second",
        "watermark": watermark,
        "open windows": f"{each['open_windows']:,}",
        "accounting": places or "no rows yet",
        "": proof(totals),
    }
    rows |= {name: proof(stage["totals"]) for name, stage in each.get("stages", {}).items()}
    if any(each.get("unread", {}).values()):
        rows["unread input"] = ", ".join(f"{count:,} {what}" for what, count in each["unread"].items())
    rows |= _more(each)
    repaired = transform_checkpoint(store, name).repairs.repaired() if store is not None else None
    if repaired:
        rows["repaired"] = ", ".join(f"{count:,} {kind}" for kind, count in repaired.items()) + " rows, by repairs"
    return "\n".join(["", name, *(f"  {label:<13} {text}" for label, text in rows.items())])


def _more(each: dict[str, Any]) -> dict[str, str]:
    """Where event times came from, if not all from one place; results that wait, and side rows, if there are any."""
    sums, more = each.get("sums", {}), dict[str, str]()
    times = sums.get("times", {})
    if len(times) > 1:
        more["event times"] = ", ".join(f"{count:,} {source}" for source, count in times.items())
    if sums.get("reinjected"):
        more["read again"] = ", ".join(f"{count:,} {kind}" for kind, count in sums["reinjected"].items())
    if sums.get("replayed"):
        counts = ", ".join(f"{count:,} {kind}" for kind, count in sums["replayed"].items())
        more["replayed"] = f"{counts} rows, which count as made"
    if sums.get("dropped"):
        more["dropped"] = ", ".join(f"{count:,} {kind}" for kind, count in sums["dropped"].items())
    if refused := sums.get("rows", {}).get("refused"):
        more["refused"] = f"{refused:,} results, which SELECT or HAVING cannot compute: error rows of their windows"
    for name, sink in each.get("sinks", {}).items():
        if sink["waiting_batches"] or not sink["up"]:
            away = "" if sink["up"] else f", away: {sink['error']}"
            more[f"to {name}"] = f"{waiting_results(sink)}{away}"
    for name, sink in each.get("side_sinks", {}).items():
        state = "" if sink["up"] else f", away: {sink['error']}"
        state += f", cannot be read: {', '.join(sink['damaged'])}" if sink.get("damaged") else ""
        label = f"side rows to {name}" if f"to {name}" in more else f"to {name}"
        more[label] = f"{sink['delivered']:,} delivered, {sink['waiting']:,} waiting{state}"
    return more
