"""Figures as tables: on the terminal, as Markdown for the documentation, as JSON for machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.nexmark.comparison import Comparison
from bench.nexmark.latency import Latency

Cells = list[list[str]]
NONE = "-"
COMPARED = (
    "query",
    "windowpane",
    "Spark",
    "Flink",
    "÷ Spark",
    "÷ Flink",
    "of the limit",
    "rows a batch",
    "peak GB",
    "other work",
)


def comparison_rows(comparisons: Sequence[Comparison]) -> Cells:
    return [_compared(comparison) for comparison in comparisons]


def _compared(comparison: Comparison) -> list[str]:
    mine = comparison.best("windowpane")
    share = f"{mine.rows_per_second / comparison.limit:.1%}" if mine and comparison.limit else NONE
    query = comparison.query
    return [
        query.title,
        *(_rate(comparison, engine) for engine in ("windowpane", "spark", "flink")),
        _ratio(comparison.ratio("spark"), query.over_spark),
        _ratio(comparison.ratio("flink"), query.over_flink),
        share,
        " / ".join(_batch(comparison, engine) for engine in ("windowpane", "spark")),
        " / ".join(_peak(comparison, engine) for engine in ("windowpane", "spark", "flink")),
        " / ".join(_others(comparison, engine) for engine in ("windowpane", "spark", "flink")),
    ]


def _rate(comparison: Comparison, engine: str) -> str:
    best = comparison.best(engine)
    if best is None:
        return "none" if engine in comparison.notes else NONE
    return f"{best.rows_per_second / 1e6:.3g}"


def _ratio(ratio: float | None, goal: float | None) -> str:
    if ratio is None:
        return NONE
    return f"{ratio:.1f}×" + (f" (goal {goal:g}×{', missed' if ratio < goal else ''})" if goal else "")


def _batch(comparison: Comparison, engine: str) -> str:
    best = comparison.best(engine)
    return f"{best.batch_rows / 1e6:g} M" if best and best.batch_rows else NONE


def _peak(comparison: Comparison, engine: str) -> str:
    best = comparison.best(engine)
    return f"{best.peak_mb / 1024:.1f}" if best and best.peak_mb else NONE


def _others(comparison: Comparison, engine: str) -> str:
    best = comparison.best(engine)
    return NONE if best is None or best.others is None else f"{best.others:.0%}"


def as_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "query": comparison.query.name,
        "title": comparison.query.title,
        "equal_rows": comparison.equal_rows,
        "limit": comparison.limit,
        "rates": {name: [vars(rate) for rate in rates] for name, rates in comparison.rates.items()},
        "best": {name: vars(best) for name in comparison.rates if (best := comparison.best(name))},
        "ratios": {name: comparison.ratio(name) for name in comparison.rates if name != "windowpane"},
        "goals": {"spark": comparison.query.over_spark, "flink": comparison.query.over_flink},
        "notes": comparison.notes,
    }


def show(console: Console, title: str, heads: Sequence[str], rows: Cells) -> None:
    table = Table(*heads, title=title, title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    console.print(table)


def markdown(heads: Sequence[str], rows: Cells) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


LATENCY = ("engine", "p50 ms", "p99 ms", "windows", "lost or wrong")


def latency_rows(latencies: Sequence[Latency]) -> Cells:
    return [
        [
            one.engine,
            _ms(one.percentile(50)),
            _ms(one.percentile(99)),
            str(len(one.samples_ms)),
            str(one.note or one.lost),
        ]
        for one in latencies
    ]


def _ms(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"


SCALING = (
    "what grows", "to", "M rows/s", "peak GB", "state MB", "open windows", "batch of one row ms", "closing all ms",
    "other work",
)  # fmt: skip


def scaling_rows(points: Sequence[dict[str, Any]]) -> Cells:
    return [_scaled(point) for point in points]


def _scaled(point: dict[str, Any]) -> list[str]:
    if "note" in point:
        return [point["dimension"], f"{point['value']:,}", point["note"], *[""] * (len(SCALING) - 3)]
    return [
        point["dimension"],
        f"{point['value']:,}",
        f"{point['rate'] / 1e6:.2f}",
        f"{point['peak_mb'] / 1024:.1f}",
        f"{point['state_bytes'] / 1e6:.2f}",
        f"{point['open_windows']:,}",
        f"{point['idle_ms']:,.0f}",
        f"{point['close_ms']:,.0f}",
        f"{point['others']:.0%}",
    ]
