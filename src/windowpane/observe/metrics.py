"""Prometheus metrics of a pipeline, computed from its status document at each scrape.

Counters continue after a restart of the pipeline, because they are the ledger's totals.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from windowpane.outcomes import OUTCOMES

Document: TypeAlias = Mapping[str, Any]
"""The status of a transform: an entry of `transforms` in status.json."""
Samples: TypeAlias = Iterable[tuple[tuple[str, ...], float | None]]

SECOND_US = 1_000_000
PREFIX = "windowpane"
BATCH_SECONDS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300)


@dataclass(frozen=True)
class Figure:
    """One metric: its samples in the document, by the labels that it has in addition to `transform`."""

    name: str
    help: str
    samples: Callable[[Document], Samples]
    labels: tuple[str, ...] = ()
    counts: bool = False

    def family(self) -> Metric:
        labels = ("transform", *self.labels)
        made: Metric = (CounterMetricFamily if self.counts else GaugeMetricFamily)(
            f"{PREFIX}_{self.name}", self.help, labels=labels
        )
        return made


def _one(read: Callable[[Document], float | None]) -> Callable[[Document], Samples]:
    return lambda document: [((), read(document))]


def _by(counts: Callable[[Document], Mapping[str, int]]) -> Callable[[Document], Samples]:
    return lambda document: [((name,), count) for name, count in counts(document).items()]


def _seconds(us: int | None) -> float | None:
    return None if us is None else us / SECOND_US


def _outcomes(document: Document) -> dict[str, int]:
    return {name: count for name, count in document["totals"].items() if name not in ("in", "made", "buffered")}


def _side_rows(document: Document) -> Samples:
    routes = document.get("routes", {})
    return [((kind, routes.get(kind, "")), count) for kind, count in document["sums"].get("side", {}).items()]


def _of_result_sinks(read: Callable[[Document], float | None]) -> Callable[[Document], Samples]:
    return lambda document: [((name,), read(sink)) for name, sink in document.get("sinks", {}).items()]


def _age_seconds(sink: Document) -> float:
    since_us = sink["waiting_since_us"]
    return 0.0 if since_us is None else max(0.0, time.time() - since_us / SECOND_US)


def _of_sinks(what: str) -> Callable[[Document], Samples]:
    return lambda document: [((name,), float(sink[what])) for name, sink in document.get("side_sinks", {}).items()]


FIGURES = (
    Figure("rows_read", "Rows read from the sources.", _one(lambda d: d["totals"]["in"] - d["totals"].get("made", 0)),
           counts=True),
    Figure("rows_made", "Further rows that explode and the like have made of the rows read.",
           _one(lambda d: d["totals"].get("made", 0)), counts=True),
    Figure(
        "rows", f"Rows by where they ended: {', '.join(outcome.name for outcome in OUTCOMES)}.",
        _by(_outcomes), ("outcome",), counts=True,
    ),
    Figure("results", "Emitted result rows.", _one(lambda d: d["sums"]["rows"].get("results", 0)), counts=True),
    Figure("sink_up", "1 if the last write of results to a sink succeeded.",
           _of_result_sinks(lambda sink: float(sink["up"])), ("sink",)),
    Figure("results_waiting", "Results waiting for a sink that is or was away.",
           _of_result_sinks(lambda sink: sink["waiting_rows"]), ("sink",)),
    Figure("results_waiting_batches", "Micro-batches whose results wait.",
           _of_result_sinks(lambda sink: sink["waiting_batches"]), ("sink",)),
    Figure("results_waiting_bytes", "Size of the waiting results in the checkpoint.",
           _of_result_sinks(lambda sink: sink["waiting_bytes"]), ("sink",)),
    Figure("results_waiting_seconds", "How long the oldest waiting result has waited.",
           _of_result_sinks(_age_seconds), ("sink",)),
    Figure("side_rows", "Side rows by kind and route.", _side_rows, ("kind", "route"), counts=True),
    Figure(
        "side_rows_dropped", "Side rows dropped by a rate limit or a full backlog.",
        _by(lambda d: d["sums"].get("dropped", {})), ("kind",), counts=True,
    ),
    Figure("side_rows_delivered", "Side rows that a sink has taken.", _of_sinks("delivered"),
           ("sink",), counts=True),
    Figure("side_rows_waiting", "Side rows waiting for their sink.", _of_sinks("waiting"), ("sink",)),
    Figure("side_sink_up", "1 if the last write to a side sink succeeded.", _of_sinks("up"), ("sink",)),
    Figure(
        "rows_reinjected", "Reinjected rows by kind.",
        _by(lambda d: d["sums"].get("reinjected", {})), ("kind",), counts=True,
    ),
    Figure(
        "rows_replayed", "Side rows that were read once more on request, by kind.",
        _by(lambda d: d["sums"].get("replayed", {})), ("kind",), counts=True,
    ),
    Figure("input_unread", "Input that is known and not read yet: files and messages.",
           _by(lambda d: {"files": 0, "messages": 0} | d.get("unread", {})), ("unit",)),
    Figure(
        "event_times", "Rows by the source of their event time.",
        _by(lambda d: d["sums"].get("times", {})), ("source",), counts=True,
    ),
    Figure("refused_results", "Results that the query could not compute.",
           _one(lambda d: d["sums"]["rows"].get("refused", 0)), counts=True),
    Figure("future_rows", "Rows too far ahead to move the watermark.",
           _one(lambda d: d["sums"]["rows"].get("future_rows", 0)), counts=True),
    Figure("late_dropped_count", "Rows that were too late for all their windows.", _one(lambda d: d["totals"]["late"]),
           counts=True),
    Figure("watermark_emitted_count", "How often the watermark has advanced.", _one(lambda d: d["watermarks"]),
           counts=True),
    Figure("buffer_size", "Buffered rows whose outcome is still open.", _one(lambda d: d["totals"]["buffered"])),
    Figure("max_timestamp_seen", "The largest event time seen, in seconds since the epoch.",
           _one(lambda d: _seconds(d["max_event_us"]))),
    Figure("watermark_timestamp", "The watermark, in seconds since the epoch.",
           _one(lambda d: _seconds(d["watermark_us"]))),
    Figure("watermark_lag_seconds", "Distance between the watermark and now.",
           _one(lambda d: _seconds(d["watermark_lag_us"]))),
    Figure("open_windows", "Open windows, sessions or triggers.", _one(lambda d: d["open_windows"])),
    Figure("state_bytes", "Size of the state.", _one(lambda d: d["state_bytes"])),
    Figure("last_batch", "Id of the last micro-batch.", _one(lambda d: d["batch_id"])),
    Figure("rows_per_second", "Rows read per second, over the last ten.", _one(lambda d: d["rows_per_second"])),
)  # fmt: skip


class PipelineMetrics(Collector):
    """All metrics of a pipeline. `document` returns its status. Call `batch_done` after each micro-batch."""

    def __init__(self, document: Callable[[], Document]) -> None:
        self._document = document
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            f"{PREFIX}_batch_seconds", "Duration of micro-batches.", ["transform"],
            registry=self.registry, buckets=BATCH_SECONDS,
        )  # fmt: skip
        self.registry.register(self)

    def batch_done(self, transform: str, seconds: float) -> None:
        self._seconds.labels(transform).observe(seconds)

    def describe(self) -> list[Metric]:
        """The metrics without samples, so that registering does not scrape."""
        return [figure.family() for figure in FIGURES]

    def collect(self) -> Iterator[Metric]:
        document = self._document()
        up = GaugeMetricFamily(f"{PREFIX}_up", "1 while the pipeline runs.", labels=["state"])
        up.add_metric([document["state"]], float(document["state"] in ("running", "draining")))
        yield up
        for figure in FIGURES:
            family = figure.family()
            for name, transform in document["transforms"].items():
                for labels, value in figure.samples(transform):
                    if value is not None:
                        family.add_metric([name, *labels], value)  # type: ignore[attr-defined]  # both families have it
            yield family
