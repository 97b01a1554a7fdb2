"""The configuration page names every Spark property that windowpane sets."""

from __future__ import annotations

from pathlib import Path

from windowpane.spark.session import CHECKPOINT_FILES_KEY, DEFAULTS

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_every_default_is_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in (*DEFAULTS, CHECKPOINT_FILES_KEY) if f"`{name}`" not in text] == []
