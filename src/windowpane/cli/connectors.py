"""`windowpane connectors`: what streams can be read from and results written to, from the registries of formats."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table

from windowpane.cli.figures import output_width
from windowpane.formats import CODECS, SINKS, SOURCES, SinkFormat, SourceFormat, sink_format, source_format

_ONCE, _OFTEN = "exactly_once", "at_least_once"
_PACKAGES = {"delta": "deltalake", "iceberg": "pyiceberg"}
"""The modules of extras that are not called like the extra."""


def list_connectors(*, as_json: bool) -> str:
    """The text to print."""
    sources = [_source(source_format(name)) for name in SOURCES.names]
    sinks = [_sink(sink_format(name)) for name in SINKS.names]
    if as_json:
        return json.dumps({"sources": sources, "codecs": list(CODECS.names), "sinks": sinks}, indent=2)
    parts = [
        "Streams", _table(sources, ("format", "read by", "options", "needs")),
        f"Values of messages (value_format): {', '.join(CODECS.names)}", "",
        "Sinks", _table(sinks, ("format", "writes", "delivery", "modes", "options", "needs")),
        "Any other format of Spark can be named too: its rows are delivered at least once.",
    ]  # fmt: skip
    return "\n".join(parts)


def _source(source: SourceFormat) -> dict[str, Any]:
    readers = [*(["workers"] if source.read_by_workers else []), *(["Spark"] if source.read_by_spark else [])]
    needed = ["path"] if source.needs_path else ["|".join(group) for group in source.required_options]
    found = {"format": source.name, "kind": source.kind, "read by": readers, "options": [f"{name}*" for name in needed]}
    return found | _extra(source.extra)


def _extra(extra: str | None) -> dict[str, Any]:
    return {
        "needs": f"windowpane[{extra}]" if extra else None,
        "installed": extra is None or find_spec(_PACKAGES.get(extra, extra)) is not None,
    }


def _sink(sink: SinkFormat) -> dict[str, Any]:
    needed = [*(["path"] if sink.needs_path else []), *sink.required_options]
    others = sorted((sink.options or frozenset()) - set(needed) - {"path"})
    prefixes = [f"{prefix}…" for prefix in sink.option_prefixes]
    return {
        "format": sink.name,
        "writes": sink.about,
        "delivery": [each.replace("_", " ") for each in sink.deliveries or (_ONCE if sink.exactly_once else _OFTEN,)],
        "modes": list(sink.modes),
        "options": [*(f"{name}*" for name in needed), *others, *prefixes, *(["…"] if sink.options is None else [])],
    } | _extra(sink.extra)


def _table(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> str:
    table = Table(*columns)
    for row in rows:
        table.add_row(*(_cell(row, column) for column in columns))
    text = StringIO()
    Console(file=text, width=output_width(), highlight=False, markup=False).print(table)
    return text.getvalue()


def _cell(row: dict[str, Any], column: str) -> str:
    value = row[column]
    if column == "needs" and value and row["installed"]:
        return f"{value} (installed)"
    return ", ".join(value) if isinstance(value, list) else value or ""
