"""`import windowpane` is cheap, and gives everything it promises."""

from __future__ import annotations

import subprocess
import sys

import pytest

import windowpane as wp


def test_importing_loads_nothing_heavy() -> None:
    code = "import sys, windowpane; print([m for m in ('pyspark', 'sqlglot', 'pyarrow', 'duckdb') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("name", wp.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(wp, name) is not None
    assert name in dir(wp)


def test_sql_is_callable_whoever_imported_the_package_first() -> None:
    assert callable(wp.sql)
    assert "iso8601" in wp.eventtime.list()
    with pytest.raises(AttributeError):
        wp.nothing  # type: ignore[attr-defined]  # noqa: B018
