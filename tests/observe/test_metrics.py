"""Metrics from a status document, and the endpoint that serves them. A pipeline that runs is scraped in tests/spark."""

from __future__ import annotations

import urllib.request
from typing import Any

import pytest

from windowpane.errors import WindowpaneError
from windowpane.observe.endpoint import MetricsEndpoint
from windowpane.observe.metrics import FIGURES, PipelineMetrics

TRANSFORM: dict[str, Any] = {
    "batch_id": 4, "rows_per_second": 2.5, "watermark_us": None, "watermark_lag_us": None, "max_event_us": None,
    "open_windows": 0, "state_bytes": 10, "watermarks": 0,
    "totals": {"in": 9, "aggregated": 5, "late": 2, "error": 0, "buffered": 2},
    "sums": {"rows": {}, "side": {"late": 2}, "times": {"metadata": 9}}, "routes": {"late": "dlq"},
    "side_sinks": {"dlq": {"waiting": 1, "delivered": 3, "up": False, "error": "away"}},
    "sinks": {
        "out": {"up": True, "error": None, "waiting_batches": 0, "waiting_rows": 0, "waiting_bytes": 0,
                "waiting_since_us": None},
        "pg": {"up": False, "error": "refused", "waiting_batches": 3, "waiting_rows": 1204, "waiting_bytes": 12345,
               "waiting_since_us": 1_714_564_848_500_000},
    },
}  # fmt: skip


def document() -> dict[str, Any]:
    return {"state": "running", "transforms": {"hot": TRANSFORM, "cold": TRANSFORM}}


def text_of(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        content: bytes = answer.read()
    return content.decode()


def test_what_is_not_known_yet_is_left_out_and_all_else_is_there() -> None:
    metrics = PipelineMetrics(document)
    metrics.batch_done("hot", 0.3)
    endpoint = MetricsEndpoint(metrics, 0, "127.0.0.1")
    try:
        lines = text_of(endpoint.url).splitlines()
    finally:
        endpoint.close()
    assert 'windowpane_rows_total{outcome="late",transform="hot"} 2.0' in lines
    assert 'windowpane_buffer_size{transform="cold"} 2.0' in lines
    assert 'windowpane_side_rows_total{kind="late",route="dlq",transform="hot"} 2.0' in lines
    assert 'windowpane_side_sink_up{sink="dlq",transform="hot"} 0.0' in lines
    assert 'windowpane_sink_up{sink="pg",transform="hot"} 0.0' in lines
    assert 'windowpane_results_waiting{sink="pg",transform="hot"} 1204.0' in lines
    assert 'windowpane_results_waiting_batches{sink="pg",transform="hot"} 3.0' in lines
    assert 'windowpane_results_waiting_bytes{sink="pg",transform="hot"} 12345.0' in lines
    assert 'windowpane_results_waiting_seconds{sink="out",transform="hot"} 0.0' in lines
    (age,) = [
        line for line in lines if line.startswith('windowpane_results_waiting_seconds{sink="pg",transform="hot"}')
    ]
    assert float(age.split()[-1]) > 10**7
    assert 'windowpane_batch_seconds_bucket{le="0.5",transform="hot"} 1.0' in lines
    assert 'windowpane_up{state="running"} 1.0' in lines
    assert not [line for line in lines if line.startswith("windowpane_watermark_timestamp{")]
    declared = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    for figure in FIGURES:
        assert f"windowpane_{figure.name}{'_total' if figure.counts else ''}" in declared


def test_every_metric_is_documented() -> None:
    from pathlib import Path  # noqa: PLC0415

    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    names = [f"{figure.name}{'_total' if figure.counts else ''}" for figure in FIGURES]
    assert [name for name in [*names, "batch_seconds", "up"] if f"`{name}`" not in text] == []


def test_a_port_that_is_taken_is_named() -> None:
    first = MetricsEndpoint(PipelineMetrics(document), 0, "127.0.0.1")
    port = int(first.url.rpartition(":")[2].partition("/")[0])
    try:
        with pytest.raises(WindowpaneError, match=str(port)) as refused:
            MetricsEndpoint(PipelineMetrics(document), port, "127.0.0.1")
    finally:
        first.close()
    assert refused.value.code == "METRICS_PORT"
