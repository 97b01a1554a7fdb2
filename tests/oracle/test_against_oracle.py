"""Any query, rows, cuts, watermarks and restore points: each step gives what the oracle says."""

from __future__ import annotations

import os

from hypothesis import given, settings

from tests.oracle import strategies as draw
from tests.oracle.running import Scenario, check_scenario

EXAMPLES = int(os.environ.get("ORACLE_EXAMPLES", "40"))
search = settings(max_examples=EXAMPLES)


@search
@given(draw.scenarios(draw.aligned))
def test_tumbling_and_hopping(scenario: Scenario) -> None:
    check_scenario(scenario)


@search
@given(draw.scenarios(draw.sessions))
def test_sessions(scenario: Scenario) -> None:
    check_scenario(scenario)


@search
@given(draw.scenarios(draw.sliding))
def test_sliding(scenario: Scenario) -> None:
    check_scenario(scenario)


@search
@given(draw.scenarios(draw.counted))
def test_count_windows(scenario: Scenario) -> None:
    check_scenario(scenario)


@search
@given(draw.scenarios(draw.stated))
def test_state_windows(scenario: Scenario) -> None:
    check_scenario(scenario)


@search
@given(draw.scenarios(draw.plain))
def test_plain_rows(scenario: Scenario) -> None:
    check_scenario(scenario)
