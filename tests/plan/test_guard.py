"""Guards of a plan: what SQL would not evaluate cannot be at fault. Evaluated by DuckDB, as the harness does."""

from __future__ import annotations

import duckdb
import pytest

from windowpane.config import parse_stream
from windowpane.plan.build import plan_query
from windowpane.plan.physical import PhysicalBranch, PhysicalEventTime, PhysicalFinalProject, PhysicalProject
from windowpane.plan.pipeline import stream_catalog
from windowpane.plan.traversal import find
from windowpane.sql import bind, to_duckdb

STREAMS = {"s": parse_stream("s", {"schema": "a BIGINT, b BIGINT, t STRING"})}

TYPES = {"a": "BIGINT", "b": "BIGINT", "t": "STRING"}


def project(sql: str) -> PhysicalProject:
    node = find(plan_query(bind(sql, stream_catalog(STREAMS, {})), STREAMS).physical, PhysicalProject)
    assert node is not None
    return node


def reason(sql: str, a: int, b: int) -> str | None:
    """The reason of the error of a row (a, b)."""
    error = project(sql).error
    assert error is not None
    found = (
        duckdb.connect()
        .execute(f"SELECT {to_duckdb(error.text, TYPES)} FROM (SELECT {a}::BIGINT AS a, {b}::BIGINT AS b)")
        .fetchone()
    )
    assert found is not None
    value = found[0]
    assert value is None or isinstance(value, str)
    return value


def test_an_argument_that_divides() -> None:
    sql = "SELECT sum(a / b) AS s FROM s GROUP BY tumblingwindow('ss', 10)"
    assert reason(sql, 1, 0) == "division_by_zero"
    assert reason(sql, 1, 1) is None


def test_a_row_that_where_drops_is_no_error() -> None:
    sql = "SELECT sum(a / b) AS s FROM s WHERE b <> 0 GROUP BY tumblingwindow('ss', 10)"
    assert reason(sql, 1, 0) is None


def test_an_error_in_where_comes_first() -> None:
    sql = "SELECT sum(b) AS s FROM s WHERE a / b > 1 GROUP BY tumblingwindow('ss', 10)"
    assert reason(sql, 1, 0) == "division_by_zero"


def test_an_argument_that_filter_leaves_out_is_no_error() -> None:
    sql = "SELECT sum(a / b) FILTER (WHERE b <> 0) AS s FROM s GROUP BY tumblingwindow('ss', 10)"
    assert reason(sql, 1, 0) is None


def test_a_key_that_divides() -> None:
    sql = "SELECT a % b AS k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10), a % b"
    assert reason(sql, 1, 0) == "division_by_zero"


@pytest.mark.parametrize("select", ["a, count(*) AS n", "a, max(b) AS m"])
def test_bare_columns_need_no_guard(select: str) -> None:
    assert project(f"SELECT {select} FROM s GROUP BY tumblingwindow('ss', 10), a").error is None


def test_results_are_guarded_behind_having() -> None:
    sql = "SELECT sum(a) / sum(b) AS r FROM s GROUP BY tumblingwindow('ss', 10) HAVING sum(b) <> 0"
    node = find(plan_query(bind(sql, stream_catalog(STREAMS, {})), STREAMS).physical, PhysicalFinalProject)
    assert node is not None
    assert node.error is not None
    names = sorted(node.outputs[0].expr.columns)
    text = to_duckdb(node.error.text, dict.fromkeys(names, "BIGINT"))
    row = ", ".join(f"0::BIGINT AS {name}" for name in names)
    assert duckdb.connect().execute(f"SELECT {text} FROM (SELECT {row})").fetchone() == (None,)


def test_time_and_branches_are_guarded() -> None:
    sql = "SELECT count(*) AS n FROM s WINDOW TUMBLING (SIZE 1 MINUTE) ON cast(t AS TIMESTAMP)"
    time = find(plan_query(bind(sql, stream_catalog(STREAMS, {})), STREAMS).physical, PhysicalEventTime)
    assert time is not None
    assert time.steps[0].error is not None
    union = (
        "SELECT x, count(*) AS n FROM (SELECT a / b AS x FROM s UNION ALL SELECT b / a AS x FROM s) u "
        "GROUP BY tumblingwindow('ss', 10), x"
    )
    branch = find(plan_query(bind(union, stream_catalog(STREAMS, {})), STREAMS).physical, PhysicalBranch)
    assert branch is not None
    assert branch.error is not None
