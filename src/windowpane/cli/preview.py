"""`windowpane preview`: queries over a sample of their streams, as tables with the account, or as JSON."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from windowpane.cli.figures import MEANINGS, instant, output_width, proof, stage_line
from windowpane.cli.report import Output
from windowpane.config import PipelineConfig, find_pipeline, load_pipeline
from windowpane.core.accounting import Accounting
from windowpane.errors import InternalError, WindowpaneError
from windowpane.preview.running import Previewed, preview
from windowpane.testing.outputs import as_python
from windowpane.time import from_datetime

SHOWN, SHOWN_SIDE = 20, 5
_POLL_SECONDS = 0.3


def preview_pipeline(path: Path | None, transform: str | None, rows: int, *, as_json: bool) -> str:
    """The text to print."""
    config = load_pipeline(path or find_pipeline())
    return _report(config, preview(config, transform, rows), as_json=as_json)


def watch_pipeline(path: Path | None, transform: str | None, rows: int, out: Output, *, as_json: bool) -> None:
    """Print a preview, and another whenever the pipeline has changed, until the user interrupts. Errors are printed."""
    file = path or find_pipeline()
    try:
        while True:
            seen, text = _stamps(file), ""
            try:
                text = preview_pipeline(file, transform, rows, as_json=as_json)
                text = json.dumps(json.loads(text), ensure_ascii=False) if as_json else text
            except InternalError:
                raise
            except WindowpaneError as wrong:
                text = json.dumps({"error": wrong.as_dict()}, ensure_ascii=False) if as_json else wrong.render()
            out.write(text if as_json else f"{text}\n\n{file}, {time.strftime('%H:%M:%S')}: watching; Ctrl-C ends\n")
            while _stamps(file) == seen:
                time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        return


def _stamps(file: Path) -> dict[str, tuple[int, int]]:
    """When the pipeline and the files with its SQL and its functions were written, and how long they are."""
    try:
        config = load_pipeline(file)
        queries = [transform.sql_file for transform in config.transforms.values() if transform.sql_file]
        modules = [function.module for function in config.functions.values() if function.module.endswith(".py")]
        files = [file, *(Path(config.resolve(each)) for each in (*queries, *modules))]
    except WindowpaneError:
        files = [file, *sorted(file.parent.glob("*.sql"))]
    return {
        str(each): (status.st_mtime_ns, status.st_size) for each in files if each.exists() and (status := each.stat())
    }


def _report(config: PipelineConfig, found: Sequence[Previewed], *, as_json: bool) -> str:
    if as_json:
        return config.redact(json.dumps({"transforms": [_as_dict(each) for each in found]}, indent=2, default=_plain))
    return config.redact("\n\n".join(_as_text(each) for each in found))


def _as_dict(found: Previewed) -> dict[str, Any]:
    return {
        "name": found.transform,
        "rows": found.rows,
        "whole_stream": found.whole,
        "results": _rows(found.results),
        "results_of_open_windows": _rows(found.open_results),
        "side": found.side,
        "account": found.accounting.named(),
        "accounts_of_stages": {name: account.named() for name, account in found.stages.items()},
        "watermark": found.watermark,
        "event_times_from": dict(found.time_sources),
        "notes": list(found.notes),
        "seconds": round(found.seconds, 3),
    }


def _rows(tables: Sequence[pa.Table]) -> list[dict[str, object]]:
    return [row for table in tables for row in as_python(table)]


def _plain(value: object) -> object:
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value)


def _as_text(found: Previewed) -> str:
    streams = ", ".join(f"{count:,} rows of {name}" for name, count in found.rows.items())
    extent = "all there are" if found.whole else "a sample"
    closed, left_open = _rows(found.results), _rows(found.open_results)
    blocks = [f"{found.transform}: {streams} ({extent}), in {found.seconds:.1f} s"]
    blocks += [f"note: {note}" for note in found.notes]
    if closed:
        blocks.append(_table(_number(len(closed), "result"), closed, SHOWN))
    if left_open:
        title = "of windows that are still open where the sample ends (they may change)"
        blocks.append(_table(f"{_number(len(left_open), 'result')} {title}", left_open, SHOWN))
    if not closed and not left_open:
        blocks.append("no results")
    if found.side:
        shown = [_side(record) for record in found.side]
        blocks.append(_table(f"{_number(len(shown), 'row')} without a result", shown, SHOWN_SIDE))
    blocks.append(f"\n{_account(found.accounting)}")
    blocks += [stage_line(found.transform, name, account.named()) for name, account in found.stages.items()]
    if found.watermark is not None and set(found.time_sources) != {"processing_time"}:
        blocks.append(f"watermark at the end of the sample: {instant(from_datetime(found.watermark))}")
    return "\n".join(blocks)


def _side(record: Mapping[str, object]) -> dict[str, object]:
    """Of a side record: why it is one, and what says most about the row."""
    row = record.get("error_detail") or record.get("original_event")
    return {"kind": record.get("kind"), "reason": record.get("reason"), "row": row}


def _account(accounting: Accounting) -> str:
    totals = accounting.named()
    places = ", ".join(f"{totals[kind]:,} {kind}" for kind in MEANINGS if totals.get(kind)) or "no rows"
    return f"rows: {places}; {proof(totals)}"


def _table(title: str, rows: Sequence[dict[str, object]], most: int) -> str:
    table = Table()
    for name in rows[0]:
        table.add_column(name, overflow="fold")
    for row in rows[:most]:
        table.add_row(*(_shown(value) for value in row.values()))
    text = StringIO()
    Console(file=text, width=output_width(), highlight=False, markup=False).print(table)
    more = f"… and {len(rows) - most:,} more (--json has all)\n" if len(rows) > most else ""
    return f"\n{title}:\n{text.getvalue()}{more}".rstrip("\n")


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ").removesuffix("+00:00")
    return json.dumps(value, ensure_ascii=False, default=_plain) if isinstance(value, dict | list) else str(value)
