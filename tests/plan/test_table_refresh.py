"""A static table can have other rows from one micro-batch on."""

from __future__ import annotations

import pytest

from windowpane.config import parse_table
from windowpane.errors import ConfigError
from windowpane.testing import Harness


def test_a_table_can_be_replaced_between_pushes() -> None:
    tables = {"names": {"schema": "id INT, name STRING", "rows": [{"id": 1, "name": "one"}]}}
    query = "SELECT name FROM s JOIN names ON s.k = names.id"
    harness = Harness(query, streams={"s": {"schema": "k INT"}}, tables=tables)
    assert [row["name"] for row in harness.push([{"k": 1}]).rows] == ["one"]
    harness.replace_table("NAMES", [{"id": 1, "name": "uno"}, {"id": 2, "name": "due"}])
    assert [row["name"] for row in harness.push([{"k": 1}, {"k": 2}]).rows] == ["uno", "due"]
    with pytest.raises(ConfigError) as refused:
        harness.replace_table("name", [])
    assert refused.value.code == "UNKNOWN_TABLE"


def test_refresh_is_a_duration() -> None:
    assert parse_table("names", {"refresh": "10m"}).refresh_us == 600_000_000
    with pytest.raises(ConfigError):
        parse_table("names", {"refresh": "0s"})
