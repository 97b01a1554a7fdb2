"""Figures as pictures, PNG files in a folder. matplotlib is asked for here alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

COLOURS = {"windowpane": "#1f6f8b", "spark": "#e07a2f", "flink": "#c7446f"}
NAMES = {"windowpane": "windowpane", "spark": "Spark", "flink": "Flink"}


def _pyplot() -> Any:
    import matplotlib as mpl  # noqa: PLC0415  # the figures themselves can be had without it

    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    return plt


def plot_rates(comparisons: Sequence[dict[str, Any]], file: Path) -> None:
    """Bars per query on a logarithmic scale, a dash where DuckDB stands."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(10, 0.9 * len(comparisons) + 1.5))
    height = 0.26
    for place, engine in enumerate(NAMES):
        rates = [one["best"].get(engine, {}).get("rows_per_second", 0) / 1e6 for one in comparisons]
        at = [position + (place - 1) * height for position in range(len(comparisons))]
        bars = axes.barh(at, rates, height, color=COLOURS[engine], label=NAMES[engine])
        axes.bar_label(bars, [f" {rate:.3g}" if rate else " none" for rate in rates], fontsize=8)
    limits = [(one["limit"] or 0) / 1e6 for one in comparisons]
    axes.scatter(limits, range(len(comparisons)), marker="|", s=300, color="black", label="limit: DuckDB, batch")
    axes.set_yticks(range(len(comparisons)), [one["title"] for one in comparisons], fontsize=9)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(left=0.01)
    axes.set_xlabel("M rows/s, two cores")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, fontsize=9)
    _save(plt, figure, axes, file)


def plot_latency(latencies: Sequence[dict[str, Any]], file: Path) -> None:
    """Each engine's latencies from the shortest to the longest."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(8, 4.5))
    for one in latencies:
        if one["samples_ms"]:
            ordered = sorted(one["samples_ms"])
            shares = [(position + 1) / len(ordered) for position in range(len(ordered))]
            label = f"{NAMES[one['engine']]}: p50 {one['p50_ms']:.0f} ms, p99 {one['p99_ms']:.0f} ms"
            axes.plot(ordered, shares, color=COLOURS[one["engine"]], label=label)
    axes.set_xlabel("ms from the row that completes a window to its results")
    axes.set_ylabel("share of the windows")
    axes.set_xlim(left=0)
    axes.legend(frameon=False)
    _save(plt, figure, axes, file)


def plot_scaling(name: str, points: Sequence[dict[str, Any]], file: Path) -> None:
    """Throughput, memory, state and close time over what grows."""
    plt = _pyplot()
    figure, panels = plt.subplots(1, 4, figsize=(14, 3.2))
    shown = (
        ("M rows/s", "rate", 1e6),
        ("peak GB", "peak_mb", 1024),
        ("state MB", "state_bytes", 1e6),
        ("close ms", "close_ms", 1),
    )
    for axes, (label, key, unit) in zip(panels, shown, strict=True):
        axes.plot(
            [point["value"] for point in points],
            [point[key] / unit for point in points],
            marker="o",
            color=COLOURS["windowpane"],
        )
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel(name)
        axes.set_title(label, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    plt.close(figure)


def _save(plt: Any, figure: Any, axes: Any, file: Path) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(file, dpi=120, bbox_inches="tight")
    plt.close(figure)
