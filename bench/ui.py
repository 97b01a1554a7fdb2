"""How much of a core the live page needs: a checkpoint with many windows and partitions, an update each second.

`python -m bench.ui` opens each view in Chromium for ten seconds and prints the time of the page's tasks.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from playwright.sync_api import CDPSession, sync_playwright

from tests.ui.synthetic import Synthetic
from windowpane.ui.guard import Guard
from windowpane.ui.serving import PageServer

VIEWS = ("graph", "flow/busiest", "windows/busiest", "performance/busiest", "results/busiest", "side/busiest", "events")
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    chromium = subprocess.run(  # noqa: S603  # our own script
        [ROOT / "scripts" / "chromium"], capture_output=True, text=True, check=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        now = time.time_ns() // 1000 // 1_000_000 * 1_000_000
        made = Synthetic(Path(folder), options.partitions, behind_s=10 * options.windows, now_us=now - 300_000_000)
        made.run(300)
        server = PageServer(made.store, Guard("127.0.0.1"), 0)
        server.start()
        ended = threading.Event()
        feeder = threading.Thread(target=feed, args=(made, ended))
        feeder.start()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.goto(server.url)
        page.wait_for_selector(".view > *")
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        print(f"{options.windows:,} windows, {options.partitions} partitions, one update a second; share of a core:")
        for view in VIEWS:
            page.evaluate(f"location.hash = '#/{view}'")
            page.wait_for_timeout(1500)
            before, began = spent(session), time.monotonic()
            page.wait_for_timeout(options.seconds * 1000)
            print(f"  {view:20} {100 * (spent(session) - before) / (time.monotonic() - began):5.1f} %", flush=True)
        ended.set()
        feeder.join()
        browser.close()
        server.close()
        made.lock.release()


def feed(made: Synthetic, ended: threading.Event) -> None:
    while not ended.wait(1.0):
        made.run(1)


def spent(session: CDPSession) -> float:
    """Seconds that the page's main thread has worked: script, layout, painting."""
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


if __name__ == "__main__":
    main()
