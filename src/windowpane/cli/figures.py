"""A running pipeline's figures in words: one line per transform, and the accounting as a table."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from rich.table import Table

from windowpane.connectors.tables import UNBOUNDED
from windowpane.outcomes import BUFFERED, OUTCOMES
from windowpane.time import format_instant

SECOND_US = 1_000_000
MEANINGS = {outcome.name: outcome.meaning for outcome in (*OUTCOMES, BUFFERED)}
"""The places where a row can end, in the order of the accounting identity."""
REPAIRED = "repaired"
"""Rows that a repair has moved into results."""


def output_width() -> int:
    """How wide text and tables may be: as the terminal, so that it is broken between words; unlimited in a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNBOUNDED


def status_line(name: str, transform: Mapping[str, Any]) -> str:
    """One line that fits 80 columns as long as numbers are small: what matters most stands first."""
    totals = transform["totals"]
    parts = [f"{name}: {totals['in']:,} rows, {transform['rows_per_second']:,.0f}/s"]
    parts += [f"{transform['open_windows']:,} open", f"{totals['late']:,} late", f"{totals['error']:,} errors"]
    if transform["watermark_us"] is not None:
        parts.append(f"at {instant(transform['watermark_us'])[11:19]}, {lag(transform['watermark_lag_us'])}")
    parts += sink_troubles(transform)
    parts.append(f"batch {transform['batch_id']}: {transform['seconds']:.1f} s")
    return " · ".join(parts)


def instant(us: int) -> str:
    """`2024-05-01 12:00:48`, with a fraction only where there is one."""
    whole, _, fraction = format_instant(us).replace("T", " ").removesuffix("Z").partition(".")
    return f"{whole}.{fraction.rstrip('0')}".rstrip(".")


def lag(us: int) -> str:
    """How far something is behind now, roughly."""
    seconds = us / SECOND_US
    if seconds < 0:
        return f"{lag(-us).removesuffix(' behind')} ahead"
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{math.floor(seconds / size):,} {unit} behind"
    return f"{seconds:.0f} s behind" if seconds >= 10 else f"{seconds:.1f} s behind"


def waiting_results(sink: Mapping[str, Any]) -> str:
    """`1,204 results of 3 batches waiting since 2024-05-01 12:00:48, 12,345 bytes`."""
    count = sink["waiting_batches"]
    batches = "1 batch" if count == 1 else f"{count:,} batches"
    since = f" since {instant(sink['waiting_since_us'])[:19]}, {sink['waiting_bytes']:,} bytes" if count else ""
    return f"{sink['waiting_rows']:,} results of {batches} waiting{since}"


def sink_troubles(transform: Mapping[str, Any]) -> list[str]:
    """Results that wait or cannot be computed, dropped side rows, and side sinks that are away, with what waits."""
    results = [
        f"{name} {'catching up' if sink['up'] else 'away'}, {sink['waiting_rows']:,} results waiting"
        for name, sink in transform.get("sinks", {}).items() if sink["waiting_batches"]
    ]  # fmt: skip
    dropped = sum(transform.get("sums", {}).get("dropped", {}).values())
    refused = transform.get("sums", {}).get("rows", {}).get("refused", 0)
    away = {name: sink for name, sink in transform.get("side_sinks", {}).items() if not sink["up"]}
    waiting = [f"{name} unreachable, {sink['waiting']:,} waiting" for name, sink in away.items()]
    counted = [(refused, "results not computed"), (dropped, "dropped")]
    return results + [f"{count:,} {what}" for count, what in counted if count] + waiting


def accounting_table(name: str, totals: Mapping[str, int], routes: Mapping[str, str]) -> Table:
    """Every kind with its count, what it means, where its rows went, and the sum, which is what was read."""
    table = Table(title=f"{name}: where every row went", title_justify="left", title_style="bold", show_footer=True)
    table.add_column("", footer="= in" if totals.get("made") else "= read")
    table.add_column("rows", justify="right", footer=f"{totals['in']:,}")
    table.add_column("", footer=proof(totals), overflow="fold")
    for kind, meaning in MEANINGS.items():
        count = totals.get(kind, 0)
        route = f", to {routes[kind]}" if count and kind in routes else ""
        table.add_row(kind, f"{count:,}", meaning + route, style=None if count else "dim")
    return table


def proof(totals: Mapping[str, int]) -> str:
    """`adds up: 13 = 10 + 1 + 1 + 1`; rows that are buffered are part of the sum.

    If explode has made rows, `adds up: 5 read + 8 made = 13 = 10 + 1 + 1 + 1`.
    """
    counts = [totals.get(kind, 0) for kind in (*MEANINGS, REPAIRED)]
    terms = " + ".join(f"{count:,}" for count in counts if count) or "0"
    made = totals.get("made", 0)
    first = f"{totals['in'] - made:,} read + {made:,} made = " if made else ""
    verdict = "adds up" if sum(counts) == totals["in"] else "DOES NOT ADD UP"
    return f"{verdict}: {first}{totals['in']:,} = {terms}"


def stage_line(name: str, stage: str, totals: Mapping[str, int]) -> str:
    """`hourly, window_2: 60 aggregated; adds up: 60 = 60`: the account of a window over the results of another."""
    places = ", ".join(f"{totals[kind]:,} {kind}" for kind in MEANINGS if totals.get(kind))
    return f"{name}, {stage}: {places or 'no results below yet'}; {proof(totals)}"
