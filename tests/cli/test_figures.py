"""What a run shows: the status line, the accounting, live lines that get out of the way of results."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from windowpane.cli import status
from windowpane.cli.figures import (
    accounting_table,
    instant,
    lag,
    proof,
    sink_troubles,
    stage_line,
    status_line,
    waiting_results,
)
from windowpane.cli.live import Above, LiveLines

TOTALS = {"in": 1234, "aggregated": 1200, "filtered": 20, "late": 10, "error": 4}


def test_the_status_line_has_what_matters_within_80_columns() -> None:
    transform = {
        "totals": TOTALS, "rows_per_second": 321.4, "open_windows": 3, "watermark_us": 1_714_564_848_000_000,
        "watermark_lag_us": 4_200_000, "batch_id": 9, "seconds": 0.7,
    }  # fmt: skip
    line = status_line("hot", transform)
    assert line == "hot: 1,234 rows, 321/s · 3 open · 10 late · 4 errors · at 12:00:48, 4.2 s behind · batch 9: 0.7 s"
    assert len(line.partition(" · batch")[0]) <= 80


def test_results_that_wait_for_a_sink_are_told() -> None:
    none = {"up": True, "error": None, "waiting_batches": 0, "waiting_rows": 0, "waiting_bytes": 0}
    away = {"up": False, "error": "refused", "waiting_batches": 3, "waiting_rows": 1204, "waiting_bytes": 12345,
            "waiting_since_us": 1_714_564_848_500_000}  # fmt: skip
    back = away | {"up": True, "error": None, "waiting_batches": 1}
    sinks = {"out": none | {"waiting_since_us": None}, "pg": away, "old": back}
    assert sink_troubles({"sinks": sinks}) == [
        "pg away, 1,204 results waiting", "old catching up, 1,204 results waiting",
    ]  # fmt: skip
    assert waiting_results(away) == "1,204 results of 3 batches waiting since 2024-05-01 12:00:48, 12,345 bytes"
    each = {
        "batch_id": 4, "rows": 1, "results": 0, "seconds": 0.1, "rows_per_second": 0.0, "open_windows": 0,
        "watermark_us": None, "totals": {"in": 0, "late": 0, "error": 0}, "sinks": sinks,
        "side_sinks": {"pg": {"waiting": 0, "delivered": 2, "up": True, "error": None}},
    }  # fmt: skip
    text = status._transform("q", each)
    assert f"to pg         {waiting_results(away)}, away: refused" in text
    assert f"to old        {waiting_results(back)}" in text
    assert "side rows to pg 2 delivered, 0 waiting" in text
    assert "to out" not in text


def test_no_watermark_yet() -> None:
    transform = {"totals": TOTALS, "rows_per_second": 0, "open_windows": 0, "watermark_us": None, "batch_id": 0}
    assert "at " not in status_line("hot", transform | {"seconds": 1.0})


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0.0 s behind"), (9_940_000, "9.9 s behind"), (61_000_000, "61 s behind"), (120_000_000, "2 min behind"),
        (7_200_000_000, "2 h behind"), (2 * 86_400_000_000, "2 d behind"), (-3_000_000, "3.0 s ahead"),
    ],
)  # fmt: skip
def test_lag(us: int, text: str) -> None:
    assert lag(us) == text


def test_instants_have_a_fraction_only_where_there_is_one() -> None:
    assert instant(1_714_564_848_000_000) == "2024-05-01 12:00:48"
    assert instant(1_714_564_848_120_000) == "2024-05-01 12:00:48.12"
    assert instant(-1) == "1969-12-31 23:59:59.999999"


def test_the_accounting_names_every_kind_and_adds_up() -> None:
    text = io.StringIO()
    Console(file=text, width=80).print(accounting_table("hot", TOTALS, {"late": "dlq", "error": "dlq"}))
    shown = text.getvalue()
    kinds = ("aggregated", "filtered", "late", "error", "duplicate", "evicted", "unmatched", "no_window", "buffered")
    assert all(kind in shown for kind in kinds)
    assert "had closed, to dlq" in shown
    assert "adds up: 1,234 = 1,200 + 20 + 10 + 4" in shown


def test_an_account_that_does_not_add_up_says_so() -> None:
    assert proof({"in": 3, "aggregated": 2}).startswith("DOES NOT ADD UP")


def test_the_account_of_a_window_over_another() -> None:
    line = stage_line("hourly", "window_2", {"in": 60, "aggregated": 58, "filtered": 1, "error": 1})
    assert line == "hourly, window_2: 58 aggregated, 1 filtered, 1 error; adds up: 60 = 58 + 1 + 1"
    assert "no results below yet" in stage_line("hourly", "window_2", {"in": 0})


def test_results_are_printed_above_the_live_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    terminal = io.StringIO()
    lines = LiveLines(terminal)
    lines.show(["a line that is too long for it", "second"])
    Above(terminal, lines).write("a result\n")
    lines.show(["third"])
    lines.clear()
    assert terminal.getvalue() == "a line that is to\nsecond\x1b[1A\r\x1b[Ja result\nthird\r\x1b[J"
