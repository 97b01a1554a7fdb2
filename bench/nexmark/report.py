"""Figures as tables: on the terminal, as Markdown for the documentation, as JSON for machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.nexmark.comparison import Comparison

Cells = list[list[str]]
NONE = "-"
COMPARED = (
    "query",
    "same as Flink",
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


NAMES = ("windowpane", "spark", "flink")


def as_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "query": comparison.query.name,
        "title": comparison.query.title,
        "rows": comparison.rows,
        "equal_rows": comparison.equal_rows,
        "limit": comparison.limit,
        "rates": {name: [vars(rate) for rate in rates] for name, rates in comparison.rates.items()},
        "best": {name: vars(best) for name in comparison.rates if (best := comparison.best(name))},
        "ratios": {name: comparison.ratio(name) for name in comparison.rates if name != "windowpane"},
        "goals": {"spark": comparison.query.over_spark, "flink": comparison.query.over_flink},
        "notes": comparison.notes,
        "differs": sorted(comparison.differs),
    }


def comparison_rows(comparisons: Sequence[dict[str, Any]]) -> Cells:
    """Of what `as_json` gives, so that figures of earlier runs are shown too."""
    return [_compared(comparison) for comparison in comparisons]


def _compared(one: dict[str, Any]) -> list[str]:
    best, ratios, goals = one["best"], one["ratios"], one["goals"]
    mine = best.get("windowpane")
    return [
        one["title"],
        _same(one),
        *(_rate(one, engine) for engine in NAMES),
        _ratio(ratios.get("spark"), goals["spark"]),
        _ratio(ratios.get("flink"), goals["flink"]),
        f"{mine['rows_per_second'] / one['limit']:.1%}" if mine and one["limit"] else NONE,
        " / ".join(_figure(best.get(engine), "batch_rows", lambda rows: f"{rows / 1e6:.3g} M") for engine in NAMES[:2]),
        " / ".join(_figure(best.get(engine), "peak_mb", lambda mb: f"{mb / 1024:.1f}") for engine in NAMES),
        " / ".join(_figure(best.get(engine), "others", lambda share: f"{share:.0%}") for engine in NAMES),
    ]


def _same(one: dict[str, Any]) -> str:
    """The number of rows that windowpane and Flink both gave, if none differs."""
    equal = one["equal_rows"]
    return f"{equal['flink']:,} rows" if isinstance(equal, dict) and {"windowpane", "flink"} <= equal.keys() else NONE


def _rate(one: dict[str, Any], engine: str) -> str:
    if engine in one["best"]:
        return f"{one['best'][engine]['rows_per_second'] / 1e6:.3g}"
    if engine in one.get("differs", ()):
        return "differs"
    return "none" if engine in one["notes"] else NONE


def _ratio(ratio: float | None, goal: float | None) -> str:
    if ratio is None:
        return NONE
    return f"{ratio:.1f}×" + (f" (goal {goal:g}×{', missed' if ratio < goal else ''})" if goal else "")


def _figure(best: dict[str, Any] | None, key: str, shown: Callable[[float], str]) -> str:
    value = best.get(key) if best else None
    return NONE if value is None else shown(value)


def comparison_notes(comparisons: Sequence[dict[str, Any]]) -> list[str]:
    """Why figures are missing, as lines."""
    return [f"{one['query']}, {engine}: {note}" for one in comparisons for engine, note in one["notes"].items()]


def show(console: Console, title: str, heads: Sequence[str], rows: Cells, notes: Sequence[str] = ()) -> None:
    table = Table(*heads, title=title, title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for note in notes:
        console.print(note, markup=False, soft_wrap=True)


def markdown(heads: Sequence[str], rows: Cells, notes: Sequence[str] = ()) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
    return table + "".join(f"\n- {note}" for note in notes) + ("\n" if notes else "")


LATENCY = ("engine", "p50 ms", "p99 ms", "windows", "lost or wrong")


def latency_rows(latencies: Sequence[dict[str, Any]]) -> Cells:
    return [
        [
            one["engine"],
            _ms(one["p50_ms"]),
            _ms(one["p99_ms"]),
            str(len(one["samples_ms"])),
            str(one["note"] or one["lost"]),
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
