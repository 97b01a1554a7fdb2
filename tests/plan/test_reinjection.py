"""Which queries may read their side rows again, and what the plan says of it."""

from __future__ import annotations

import pytest

from windowpane.config import parse_pipeline
from windowpane.errors import ConfigError, PlanError
from windowpane.plan.pipeline import plan_pipeline
from windowpane.plan.summary import summarize

ROUTE = {"sink": "reinject", "max_reinjections": 2, "then": "dlq"}


def planned(sql: str, route: dict[str, object]) -> dict[str, str]:
    settings = {
        "streams": {"s": {"format": "json", "path": "s", "schema": "k STRING, v BIGINT"}},
        "tables": {"t": {"format": "json", "path": "t", "schema": "k STRING"}},
        "transforms": {"q": {"sql": sql, "sink": "dlq", "side_output": {"error": route}}},
        "sinks": {"dlq": {"format": "console"}},
    }
    return summarize(plan_pipeline(parse_pipeline(settings))[0])


def test_the_summary_says_where_rows_end() -> None:
    lines = planned("SELECT count(*) AS n FROM s GROUP BY tumblingwindow('ss', 1)", ROUTE)
    assert lines["error rows"] == "reinjected, at most 2 times, then to dlq"


@pytest.mark.parametrize(
    ("rows", "reason"),
    [("s JOIN t ON s.k = t.k", "join"), ("(SELECT k FROM s UNION ALL SELECT k FROM s) u", "reads a stream twice")],
)
def test_rows_that_would_not_come_back_as_one_are_refused(rows: str, reason: str) -> None:
    with pytest.raises(PlanError, match=reason) as refused:
        planned(f"SELECT count(*) AS n FROM {rows} GROUP BY tumblingwindow('ss', 1)", ROUTE)
    assert refused.value.code == "UNSUPPORTED_ROUTE"
    assert refused.value.key == "transforms.q.side_output.error.sink"


def test_rows_that_dedupe_has_seen_are_refused() -> None:
    """They would come back as duplicates of themselves. Error rows are judged before."""
    settings = {
        "streams": {"s": {"format": "json", "path": "s", "schema": "k STRING"}},
        "transforms": {
            "q": {
                "sql": "SELECT k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 1), k", "sink": "dlq",
                "dedupe": {"key": "k", "within": "1m"}, "limits": {"max_groups": 1},
                "side_output": {"evicted": {"sink": "reinject"}, "error": {"sink": "reinject"}},
            }
        },
        "sinks": {"dlq": {"format": "console"}},
    }  # fmt: skip
    with pytest.raises(PlanError, match="treat them as duplicates") as refused:
        plan_pipeline(parse_pipeline(settings))
    assert refused.value.key == "transforms.q.side_output.evicted.sink"
    del settings["transforms"]["q"]["side_output"]["evicted"]  # type: ignore[index]
    assert plan_pipeline(parse_pipeline(settings))[0].reinjects


@pytest.mark.parametrize("route", [{"sink": "dlq", "then": "dlq"}, {"sink": "reinject", "then": "nowhere"}])
def test_then_needs_reinject_and_a_sink_that_is_there(route: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as refused:
        planned("SELECT count(*) AS n FROM s GROUP BY tumblingwindow('ss', 1)", route)
    assert refused.value.code in ("BAD_VALUE", "UNKNOWN_SINK")
