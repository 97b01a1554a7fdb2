"""`run --profile`: what it adds up, and how it shows it."""

from __future__ import annotations

from rich.console import Console

from windowpane.checkpoint.ledger import Entry
from windowpane.cli.profile import WARM_UP, Profile


def entry(number: int, **spent: float) -> Entry:
    counts = {"in_": 10, "buffered": 0}
    return Entry(number, 0, None, counts, counts, 0, seconds=0.0, spent=spent, shuffled=[[30, 10], [1, 1]])


def test_the_first_batches_are_left_out() -> None:
    profile = Profile()
    for number in range(WARM_UP + 3):
        profile.hear(entry(number, job=100.0 if number < WARM_UP else 0.5, sink=0.25, fold=0.125))
    assert (profile.batches, profile.rows) == (3, 30)
    assert profile.document()["seconds"]["job"] == 1.5  # type: ignore[index]
    console = Console(record=True, width=100)
    console.print(profile.table("hot"))
    shown = console.export_text()
    assert "hot: where the time of 3 micro-batches went (30 rows)" in shown
    assert "500.0 ms │   67%" in shown
    assert "125.0 ms" in shown
    assert profile.document()["shuffled"] == [[90, 30], [3, 3]]
    assert "      40 │   75%" in shown


def test_a_run_of_no_batches_shows_zeros() -> None:
    console = Console(record=True, width=100)
    console.print(Profile().table("hot"))
    assert "0.0 ms" in console.export_text()
