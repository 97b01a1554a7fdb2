"""Any query, rows, cuts, watermarks and restore points: each step gives what the oracle says."""

from __future__ import annotations

from hypothesis import given

from tests.oracle import strategies as draw
from tests.oracle.running import Scenario, check_scenario
from tests.search import search


@search(10)
@given(draw.scenarios(draw.queries(draw.aligned)))
def test_tumbling_and_hopping(scenario: Scenario) -> None:
    check_scenario(scenario)


@search(8)
@given(draw.scenarios(draw.queries(draw.cumulated)))
def test_cumulating(scenario: Scenario) -> None:
    check_scenario(scenario)


@search(8)
@given(draw.stretched(draw.scenarios(draw.queries(draw.calendars))))
def test_calendar_windows(scenario: Scenario) -> None:
    check_scenario(scenario)


@search(10)
@given(draw.scenarios(draw.queries(draw.sessions)))
def test_sessions(scenario: Scenario) -> None:
    check_scenario(scenario)


@search(10)
@given(draw.scenarios(draw.queries(draw.sliding)))
def test_sliding(scenario: Scenario) -> None:
    check_scenario(scenario)


@search(10)
@given(draw.scenarios(draw.queries(draw.counted)))
def test_count_windows(scenario: Scenario) -> None:
    check_scenario(scenario)


@search(10)
@given(draw.scenarios(draw.queries(draw.stated)))
def test_state_windows(scenario: Scenario) -> None:
    check_scenario(scenario)


@search(4)
@given(draw.scenarios(draw.queries(draw.plain)))
def test_plain_rows(scenario: Scenario) -> None:
    check_scenario(scenario)
