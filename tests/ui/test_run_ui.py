"""`windowpane run --ui` on real Spark: the page of a running pipeline, and its end by the page."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx2 as httpx
import pytest

from tests.command_runs import ENDLESS, Runs, write_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TOKEN = "correct horse"
HEADERS = {"authorization": f"Bearer {TOKEN}", "x-windowpane": "1"}


def test_a_running_pipeline_is_shown_and_stopped(runs: Runs) -> None:
    write_pipeline(runs.folder, ENDLESS, key="value % 2")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"

    def document() -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{address}/api/document", headers=HEADERS, timeout=30).json()
        return found

    runs.start("--ui", str(port), "--ui-token", TOKEN)
    runs.until(lambda: runs.batches() > 1 and runs.state() == "running")
    runs.until(lambda: bool(document()["recent"].get("t", {}).get("results")))
    shown = document()
    told = json.loads(runs.command("status", "--json").stdout)
    assert shown["status"].keys() == told.keys()
    assert shown["status"]["started_us"] == told["started_us"]
    totals = shown["status"]["transforms"]["t"]["totals"]
    assert shown["problems"] == []
    assert sum(count for kind, count in totals.items() if kind not in ("in", "made")) == totals["in"] > 0
    assert set(shown["recent"]["t"]["results"][0]["row"]) == {"window_start", "k", "n"}
    assert all(end - start == 2_000_000 for start, end, *_ in shown["recent"]["t"]["windows"])
    assert shown["partitions"]["t"]["maxima"].keys() == {"s/0"}
    assert shown["history"]["t"][-1]["spent"]["job"] > 0
    assert [each["kind"] for each in shown["events"]] == ["start"]

    asked = httpx.post(f"{address}/api/ask/stop", headers=HEADERS, timeout=30)
    assert asked.json() == {"asked": "stop"}
    told_at_the_end = runs.stopped()
    assert f"live page: {address}/" in told_at_the_end
    assert TOKEN not in told_at_the_end
    events = json.loads((runs.folder / "state" / "events.json").read_text())["events"]
    assert [each["kind"] for each in events] == ["start", "stopped"]
