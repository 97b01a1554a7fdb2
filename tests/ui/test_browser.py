"""The page in a real browser: its figures are those of `windowpane status`, nothing fails, data stays text."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.ui.synthetic import NASTY, Synthetic
from windowpane.checkpoint.control import Requests
from windowpane.runtime.status import read_status
from windowpane.ui.guard import Guard
from windowpane.ui.serving import PageServer

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "correct horse"
VIEWS = ("graph", "flow/busiest", "windows/busiest", "windows/turnover", "performance/busiest", "results/busiest",
         "side/busiest", "side/busiest/late", "events")  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; without it the tests are skipped, and fail where CI is set."""
    found = subprocess.run([ROOT / "scripts" / "chromium"], capture_output=True, text=True, check=False)
    if found.returncode:
        if os.environ.get("CI"):
            pytest.fail(found.stderr)
        pytest.skip(found.stderr)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found.stdout.strip(), args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def server(made: Synthetic) -> Iterator[PageServer]:
    server = PageServer(made.store, Guard("127.0.0.1", TOKEN), 0)
    server.start()
    yield server
    server.close()


@pytest.fixture
def troubles() -> list[str]:
    """What the browser complains about, or asks of others."""
    return []


@pytest.fixture
def page(browser: Browser, server: PageServer, troubles: list[str]) -> Iterator[Page]:
    page = browser.new_page()
    page.on("console", lambda told: troubles.append(told.text) if told.type in ("error", "warning") else None)
    page.on("pageerror", lambda failed: troubles.append(str(failed)))
    page.on("request", lambda asked: None if asked.url.startswith(server.url) else troubles.append(asked.url))
    page.on("requestfailed", lambda asked: None if "stream" in asked.url else troubles.append(asked.url))
    page.goto(f"{server.url}?token={TOKEN}")
    yield page
    page.close()


def show(page: Page, view: str) -> None:
    page.evaluate(f"location.hash = '#/{view}'")
    page.wait_for_selector(f".view.{view.split('/', maxsplit=1)[0]} > *")


def figure(page: Page, name: str) -> str:
    return page.locator(f'[data-figure="{name}"]').first.text_content() or ""


def status(made: Synthetic) -> dict[str, Any]:
    found = read_status(made.store)
    assert found is not None
    return found


def test_every_view_at_every_size_without_a_complaint(
    page: Page, troubles: list[str], made: Synthetic, server: PageServer
) -> None:
    for scheme, width in (("light", 1200), ("dark", 1200), ("light", 390)):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 844})
        for view in VIEWS:
            show(page, view)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{view} is {wide} px wide on a screen of {width}"
            assert page.locator('nav [aria-current="page"]').first.is_visible()
    assert troubles == []
    assert page.context.cookies()[0]["httpOnly"]


def test_figures_are_those_of_the_status(page: Page, made: Synthetic) -> None:
    found = status(made)["transforms"]["busiest"]
    show(page, "flow/busiest")
    for kind in ("in", "aggregated", "filtered", "late", "error", "duplicate"):
        assert figure(page, f"totals.{kind}") == f"{found['totals'][kind]:,}"
    assert figure(page, "proof").startswith(f"adds up: {found['totals']['in']:,} = ")
    show(page, "windows/busiest")
    assert figure(page, "open_windows") == f"{found['open_windows']:,}"
    assert figure(page, "held_by") == found["held_by"] == "bids/3"
    show(page, "performance/busiest")
    assert figure(page, "unread") == "3 files, 1,200 messages"
    show(page, "graph")
    assert figure(page, "graph busiest in") == f"{found['totals']['in']:,} rows"
    assert figure(page, "rate bids busiest") == short(found)
    show(page, "side/busiest")
    assert figure(page, "side late") == f"{found['totals']['late']:,}"
    assert page.locator(".pill.running").is_visible()


def short(found: dict[str, Any]) -> str:
    """`rows_per_second` as the page writes it."""
    value = found["rows_per_second"]
    return f"{value / 1000:.1f}".removesuffix(".0") + " k/s" if value >= 1000 else f"{value:.0f}/s"


def test_the_page_follows_the_pipeline(page: Page, made: Synthetic) -> None:
    show(page, "flow/turnover")
    made.run(3)
    wanted = f"{status(made)['transforms']['turnover']['totals']['in']:,}"
    page.locator('[data-figure="totals.in"]', has_text=wanted).wait_for()
    made.stop()
    page.wait_for_selector(".pill.stopped")
    assert page.locator("#stop").is_disabled()


def test_data_stays_text(page: Page, troubles: list[str]) -> None:
    show(page, "side/busiest")
    assert json.dumps(NASTY)[1:-1] in (page.locator(".record pre").first.text_content() or "")
    show(page, "events")
    assert NASTY in (page.locator("ol.events").text_content() or "")
    assert page.locator("main img").count() == 0
    assert troubles == []


@pytest.mark.parametrize("request_", ["stop", "drain"])
def test_buttons_ask_the_pipeline_to_end(page: Page, made: Synthetic, request_: str) -> None:
    page.on("dialog", lambda dialog: dialog.accept())
    with page.expect_response(f"**/api/ask/{request_}") as answer:
        page.locator(f"#{request_}").click()
    assert answer.value.ok
    assert Requests(made.store).take() == request_


def test_without_a_token_there_are_no_buttons(browser: Browser, made: Synthetic) -> None:
    server = PageServer(made.store, Guard("127.0.0.1"), 0)
    server.start()
    page = browser.new_page()
    try:
        page.goto(server.url)
        page.wait_for_selector(".pill.running")
        assert not page.locator("#actions").is_visible()
    finally:
        page.close()
        server.close()
