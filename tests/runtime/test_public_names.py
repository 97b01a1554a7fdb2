"""`import windowpane` is cheap, and gives everything it promises."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from typing import Any

import pytest

import windowpane as wp
from windowpane.errors import ConfigError


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


def test_help_shows_real_parameters() -> None:
    assert list(inspect.signature(wp.sql).parameters) == [
        "spark", "query", "streams", "tables", "options", "transform", "originals",
    ]  # fmt: skip
    assert "streams: 'Mapping" in pydoc.plain(pydoc.render_doc(wp.sql))
    assert [name for name in inspect.signature(wp.Pipeline.from_toml).parameters if name in ("given", "kwargs")] == []


@pytest.fixture
def settings() -> dict[str, Any]:
    return {
        "streams": {"s": {"format": "rate"}},
        "transforms": {"t": {"sql": "SELECT count(*) FROM s GROUP BY tumblingwindow('ss', 1)", "sink": "results"}},
        "sinks": {"results": {"format": "memory"}, "unused": {"format": "memory"}},
    }


def test_a_pipeline_is_shown_in_one_line(settings: dict[str, Any]) -> None:
    assert repr(wp.Pipeline.from_dict(settings)) == "<Pipeline from a mapping: t>"


@pytest.mark.parametrize("name", ["result", "unused", "metrics_only"])
def test_a_sink_that_nothing_writes_to_is_refused(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        wp.Pipeline.from_dict(settings, sinks={name: wp.MemorySink("results")})
    assert (refused.value.code, refused.value.hint) == ("UNKNOWN_SINK", "valid, nearest first: results")


def test_a_sink_must_be_one(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        wp.Pipeline.from_dict(settings, sinks={"results": print})  # type: ignore[dict-item]
    assert refused.value.code == "BAD_TYPE"


def test_a_trigger_is_as_in_the_file(settings: dict[str, Any]) -> None:
    trigger = wp.Pipeline.from_dict(settings, trigger="10s").trigger
    assert trigger is not None
    assert trigger.every_us == 10_000_000
    with pytest.raises(ConfigError):
        wp.Pipeline.from_dict(settings, trigger="sometimes")
