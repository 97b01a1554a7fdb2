"""Fixtures of the planner: a reason, settings as TOML, a query, and what is expected. One loader for all of them.

WINDOWPANE_COMPLETE=1 writes what came out into the files, to be read before it is committed.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windowpane.config import parse_options, parse_stream, parse_table, parse_transform
from windowpane.plan.build import Plan, plan_query
from windowpane.plan.pipeline import stream_catalog
from windowpane.sql import bind

FIXTURES = Path(__file__).parent / "fixtures"
DEFAULT_STREAMS: dict[str, dict[str, Any]] = {
    "bids": {"format": "json", "schema": "auction BIGINT, price BIGINT, bidder STRING, ts TIMESTAMP, ms BIGINT"},
    "asks": {"format": "kafka", "schema": "item BIGINT, price BIGINT, at STRING, received_at TIMESTAMP"},
    "raw": {"format": "parquet"},
}
DEFAULT_TABLES = {"items": {"format": "csv", "schema": "auction BIGINT, category STRING"}}
SEPARATORS = ("settings", "sql", "expected")


@dataclass(frozen=True)
class Fixture:
    """One file: `# reason`, then the parts below `--- settings`, `--- sql`, `--- expected`."""

    path: Path
    reason: str
    settings: dict[str, Any]
    sql: str
    expected: str

    def plan(self) -> Plan:
        named = DEFAULT_STREAMS | self.settings.get("streams", {})
        streams = {name: parse_stream(name, keys) for name, keys in named.items()}
        tables = {name: parse_table(name, keys) for name, keys in DEFAULT_TABLES.items()}
        transform = parse_transform(self.settings.get("transform", {}), "hot")
        bound = bind(self.sql, stream_catalog(streams, tables))
        return plan_query(bound, streams, parse_options(self.settings.get("options", {})), transform, name="hot")

    def agree(self, got: str) -> None:
        """Fails with a diff when `got` is not what the file expects."""
        if os.environ.get("WINDOWPANE_COMPLETE"):
            head = self.path.read_text().partition("--- expected\n")[0]
            self.path.write_text(f"{head}--- expected\n{got}\n")
            return
        assert got.splitlines() == self.expected.splitlines(), self.path.name


def load(folder: str) -> list[Fixture]:
    return [_read(path) for path in sorted((FIXTURES / folder).glob("*.txt"))]


def _read(path: Path) -> Fixture:
    head, *rest = ("\n" + path.read_text()).split("\n--- ")
    parts = {part.partition("\n")[0]: part.partition("\n")[2].strip("\n") for part in rest}
    assert set(parts) <= set(SEPARATORS), f"{path.name} has unknown parts"
    settings = tomllib.loads(parts.get("settings", ""))
    return Fixture(path, head.strip().removeprefix("#").strip(), settings, parts["sql"], parts.get("expected", ""))
