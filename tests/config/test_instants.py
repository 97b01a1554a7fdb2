"""Instants on the command line: ISO 8601, dates, and durations before or after now."""

from __future__ import annotations

import pytest

from windowpane.errors import ConfigError
from windowpane.time import parse_instant

NOW = 1_000_000_000_000
DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1970-01-02", DAY),
        (" 1969-12-31 ", -DAY),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01 00:00:01", 1_000_000),
        ("now", NOW),
        ("-1d", NOW - DAY),
        ("-1d 12h", NOW - DAY - DAY // 2),
        ("+90m", NOW + 5_400_000_000),
    ],
)
def test_an_instant_is_read(text: str, us: int) -> None:
    assert parse_instant(text, NOW) == us


@pytest.mark.parametrize("text", ["", "yesterday", "-", "-1", "1d", "2026-13-01", "-9999999999999d"])
def test_other_texts_are_refused_with_examples(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_instant(text, NOW)
    assert refused.value.code == "BAD_INSTANT"
    assert "2026-01-31" in str(refused.value.hint)
