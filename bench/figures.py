"""Figures of a benchmark: how they are timed, judged against their goals, and shown as a table or as JSON."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One measured number. Without a goal it is shown for comparison only."""

    name: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""

    @property
    def goal(self) -> str:
        if self.at_least is not None:
            return f"≥ {_short(self.at_least)} {self.unit}"
        return "" if self.at_most is None else f"≤ {_short(self.at_most)} {self.unit}"

    @property
    def met(self) -> bool | None:
        """None when there is no goal."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.at_most is None else self.value <= self.at_most


class Stopwatch:
    """The clock that all figures are taken with: the wall's, or the processor time of this process."""

    read: Callable[[], float] = staticmethod(time.perf_counter)

    @classmethod
    def count_cpu_time(cls) -> None:
        """For machines on which other work runs: waiting for a core does not count."""
        cls.read = staticmethod(time.process_time)


def seconds(work: Callable[[], object]) -> float:
    """One run. Garbage is collected between runs, not in them."""
    gc.disable()
    try:
        begin = Stopwatch.read()
        work()
        return Stopwatch.read() - begin
    finally:
        gc.enable()


def median_seconds(work: Callable[[], object], repeats: int) -> float:
    """The median of several runs after one that does not count."""
    work()
    return statistics.median(seconds(work) for _ in range(repeats))


def percentile(samples: Iterable[float], share: float) -> float:
    """The smallest sample that at least `share` of them do not exceed."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def show(title: str, figures: Iterable[Figure]) -> None:
    table = Table("figure", "measured", "goal", "", "compared, or how", title=title, title_justify="left")
    table.columns[1].justify = "right"
    for figure in figures:
        verdict = {True: "[green]met", False: "[red]missed", None: ""}[figure.met]
        table.add_row(figure.name, f"{_short(figure.value)} {figure.unit}", figure.goal, verdict, figure.note)
    Console(width=None if Console().is_terminal else 160).print(table)


def as_json(figures: Iterable[Figure]) -> str:
    return json.dumps([asdict(figure) | {"met": figure.met} for figure in figures], indent=2, ensure_ascii=False)


def _short(number: float) -> str:
    """Three significant digits, or whole when larger.

    >>> _short(0.04567), _short(12345.6), _short(1.0)
    ('0.0457', '12,346', '1')
    """
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"
