"""Plans and refusals as golden text: SQL and settings to logical, optimized and physical plan, or to the error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.plan.golden import Fixture, load
from windowpane.errors import PlanError
from windowpane.plan.explain import explain, render, render_json
from windowpane.plan.physical import (
    PhysicalAggregation,
    PhysicalEventtimeWatermark,
    PhysicalProcessTimeWatermark,
    PhysicalProject,
    PhysicalResultWatermark,
    PhysicalStreamingAggregation,
    PhysicalStreamJoin,
    PhysicalWindow,
)
from windowpane.plan.stages import TimeStage
from windowpane.plan.summary import summarize
from windowpane.plan.traversal import find, walk

PLANS = load("plans")
REFUSALS = load("refusals")


def name_of(fixture: Fixture) -> str:
    return fixture.path.stem


@pytest.mark.parametrize("fixture", PLANS, ids=name_of)
def test_plan(fixture: Fixture) -> None:
    plan = fixture.plan()
    summary = "\n".join(f"{label}: {text}" for label, text in summarize(plan).items())
    fixture.agree(f"{render(explain(plan))}\n\n== In words ==\n{summary}")


@pytest.mark.parametrize("fixture", REFUSALS, ids=name_of)
def test_refusal(fixture: Fixture) -> None:
    with pytest.raises(PlanError) as caught:
        fixture.plan()
    fixture.agree(caught.value.render())


def test_every_refusal_has_a_fixture_of_its_own_code() -> None:
    codes = {fixture.expected.partition("]")[0].removeprefix("[") for fixture in REFUSALS}
    assert codes >= {
        "DEDUPE_COLUMN_NOT_FOUND", "EVENTTIME_COLUMN_NOT_FOUND", "EVENTTIME_DISABLED", "EVENTTIME_NOT_DECLARED",
        "EVENTTIME_TYPE_MISMATCH", "EVENTTIME_TYPE_NEEDED", "EVENT_TIME_FIELD_NOT_FOUND", "LATENESS_NOT_ALLOWED",
        "CHAIN_EXPRESSION", "EMPTY_INTERVAL", "JOIN_EXPRESSION", "LATE_RULE_CONFLICT", "MAX_GROUPS_NOT_APPLICABLE",
        "NEEDS_EVENT_TIME", "UNBOUNDED_JOIN", "UNKNOWN_EVENTTIME_TYPE", "UNSUPPORTED_JOIN",
    }  # fmt: skip


@pytest.mark.parametrize("fixture", PLANS, ids=name_of)
def test_planning_twice_gives_equal_plans(fixture: Fixture) -> None:
    assert fixture.plan() == fixture.plan()


def nodes(structure: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield structure
    for child in structure["children"]:
        yield from nodes(child)


@pytest.mark.parametrize("fixture", PLANS, ids=name_of)
def test_json_and_text_agree(fixture: Fixture) -> None:
    structure = json.loads(render_json(explain(fixture.plan())))
    unwrapped = render(structure, width=100_000).splitlines()
    for section in ("logical", "optimized", "physical"):
        shown = list(nodes(structure[section]))
        assert [node["id"] for node in shown] == list(range(len(shown)))
        for node in shown:
            head = f"{node['node']}#{node['id']}"
            lines = [line for line in unwrapped if head in line.split()]
            assert len(lines) >= 1
            for name, value in node["properties"].items():
                text = "yes" if value is True else f"[{', '.join(value)}]" if isinstance(value, list) else str(value)
                assert any(f" {name}={text}" in line for line in lines), (head, name)


@pytest.mark.parametrize("fixture", PLANS, ids=name_of)
def test_a_watermark_stands_below_every_window(fixture: Fixture) -> None:
    physical = fixture.plan().physical
    stateful = find(physical, PhysicalStreamingAggregation) or find(physical, PhysicalWindow)
    if stateful is None:
        return
    marks = PhysicalEventtimeWatermark | PhysicalProcessTimeWatermark | PhysicalResultWatermark
    windows = [node for node in walk(stateful) if isinstance(node, (PhysicalStreamingAggregation, PhysicalWindow))]
    assert sum(isinstance(node, marks) for node in walk(stateful)) == len(windows)


@pytest.mark.parametrize("fixture", PLANS, ids=name_of)
def test_every_column_that_is_read_crosses_once(fixture: Fixture) -> None:
    physical = fixture.plan().physical
    node = find(physical, PhysicalStreamingAggregation) or find(physical, PhysicalAggregation)
    project = find(node or physical, PhysicalProject)
    assert project is not None
    crossing = [column.name for column in project.columns]
    assert len({column.expr.text for column in project.columns}) == len(crossing) == len(set(crossing))
    if node is not None:
        read = [arg for call in node.aggregation.calls for arg in (*call.args, *([call.filter] if call.filter else []))]
        join = find(physical, PhysicalStreamJoin)
        computed = [column.name for column in join.join.computed] if join else []
        assert {*read, *(key.column for key in node.aggregation.keys)} <= {*crossing, *computed}


REASONS = {
    "not_fused_median": "not_fused=median(price) needs all rows",
    "sliding_distinct": "not_fused=count(DISTINCT bidder) cannot aggregate overlapping ranges",
    "sliding_grouped_inside": "not_fused=auction is grouped inside each window",
    "count_window": "not_fused=which rows make a window is known only when it is complete",
    "hopping_max_groups": "panes=per window: max_groups counts the groups of each window",
    "hopping_gaps": "panes=per window: windows do not overlap",
    "hopping_tiny_panes": "panes=per window: panes of 1ms would be too many",
}


@pytest.mark.parametrize("fixture", [each for each in PLANS if each.path.stem in REASONS], ids=name_of)
def test_a_rule_that_was_not_applied_says_why(fixture: Fixture) -> None:
    plan = fixture.plan()
    assert REASONS[fixture.path.stem] in render(explain(plan), width=100_000)
    applied = {rule.name for rule in plan.rules}
    refused = "fuse_window_aggregate" if REASONS[fixture.path.stem].startswith("not_fused") else "share_panes"
    assert refused not in applied


def test_each_branch_that_reads_a_stream_has_a_part_in_the_watermark() -> None:
    (twice,) = [fixture for fixture in PLANS if name_of(fixture) == "union_of_one_stream"]
    (time,) = twice.plan().stages.of(TimeStage)
    assert time.streams == ("bids", "bids#2")


def test_width_is_kept_even_with_fifty_columns() -> None:
    (fixture,) = [each for each in PLANS if each.path.stem == "fifty_columns"]
    text = render(explain(fixture.plan()))
    assert max(map(len, text.splitlines())) <= 110
    assert len(fixture.plan().query.outputs) == 50
