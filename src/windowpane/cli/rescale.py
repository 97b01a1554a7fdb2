"""`windowpane rescale`: the state of a stopped pipeline for another number of shards."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from windowpane.cli.figures import output_width
from windowpane.config import find_pipeline
from windowpane.runtime.pipeline import Pipeline
from windowpane.runtime.rescaling import Rescale, Rescaled
from windowpane.spark.rescaling import ShardSize


def rescale(path: Path | None, shards: int, transform: str | None, *, dry_run: bool, as_json: bool) -> str:
    """Rescale all transforms or one. Gives the text to print."""
    pipeline = Pipeline.from_toml(path or find_pipeline(), transform=transform)
    done = Rescale(pipeline, shards, dry_run=dry_run).carry_out()
    if as_json:
        return json.dumps(
            {"dry_run": dry_run, "transforms": {each.transform: _as_dict(each) for each in done}}, indent=2
        )
    parts = [_as_text(each, dry_run=dry_run) for each in done]
    configured = pipeline.config.options.shards
    if not dry_run and configured not in (None, shards):
        parts.append(f"Set `shards = {shards}` under [options] now: the file has {configured}.")
    return "\n\n".join(parts)


def _as_dict(done: Rescaled) -> dict[str, Any]:
    return {
        "shards_before": done.shards_before,
        "shards": done.shards,
        "layout": done.layout,
        "before": [_size(each) for each in done.before],
        "after": [_size(each) | {"rows": each.taken} for each in done.after],
    }


def _size(shard: ShardSize) -> dict[str, int]:
    return {"stage": shard.step, "shard": shard.shard, "entries": shard.entries, "bytes": shard.size}


def _as_text(done: Rescaled, *, dry_run: bool) -> str:
    if done.shards_before == done.shards:
        return f"{done.transform}: already has {_shards(done.shards)}"
    verb = "would get" if dry_run else "has"
    text = f"{done.transform}: {verb} {_shards(done.shards)} instead of {done.shards_before} (shards: {done.layout})"
    return f"{text}\n{_drawn(_table(done))}" if done.after else f"{text}; no micro-batch has left state yet"


def _shards(count: int) -> str:
    return f"{count} shard{'' if count == 1 else 's'}"


def _table(done: Rescaled) -> Table:
    table = Table(show_footer=True)
    total = sum(each.taken for each in done.after)
    for label, footer in (("", "all rows, once"), ("stage", ""), ("shard", ""), ("entries", "")):
        table.add_column(label, justify="right" if label else "left", footer=footer)
    table.add_column("rows", justify="right", footer=f"{total:,}")
    table.add_column("bytes", justify="right")
    for label, shards in (("before", done.before), ("after", done.after)):
        for each in shards:
            rows = f"{each.taken:,}" if shards is done.after else ""
            table.add_row(label, str(each.step), str(each.shard), f"{each.entries:,}", rows, f"{each.size:,}")
    return table


def _drawn(table: Table) -> str:
    text = StringIO()
    Console(file=text, width=output_width(), highlight=False, markup=False).print(table)
    return text.getvalue().rstrip()
