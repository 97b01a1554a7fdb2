"""Window functions below a window or a join: workers compute some of them, and the others are refused by name."""

from __future__ import annotations

import re

import pytest

from tests.spark.result_queries import QUERIES
from windowpane.errors import PlanError
from windowpane.plan.comparing import EXACT
from windowpane.sql.binding.over import FUNCTIONS
from windowpane.testing import Harness

ARGUMENTS = {"ntile": "2", "nth_value": "n, 2", "bool_and": "n > 1", "bool_or": "n > 1", "count_if": "n > 1"}
ARGUMENTS |= dict.fromkeys(("row_number", "rank", "dense_rank", "percent_rank", "cume_dist"), "")
FIRST = {"first": "first_value", "any_value": "first_value", "last": "last_value"}
"""Other names of those."""
STREAM = {"schema": "ts BIGINT, k STRING", "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}


def test_those_that_workers_compute_are_compared_with_spark() -> None:
    """In SELECT, where Spark itself computes them and the harness does what workers do."""
    calls = r"(\w+)\((?:[^()]|\([^()]*\))*\)(?: FILTER \([^)]*\))?(?: IGNORE NULLS)? OVER"
    compared = set(re.findall(calls, "".join(QUERIES.values())))
    assert set(EXACT) <= compared


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_each_of_the_others_is_refused(function: str) -> None:
    call = f"{function}({ARGUMENTS.get(function, 'n')}) OVER (ORDER BY k)"
    counted = "SELECT k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 10), k"
    sql = f"SELECT max(r) AS m FROM (SELECT *, {call} AS r FROM ({counted})) GROUP BY tumblingwindow('mi', 1)"
    options = {"eventtime.enabled": True}
    if FIRST.get(function, function) in EXACT:
        Harness(sql, streams={"s": STREAM}, options=options)
    else:
        with pytest.raises(PlanError) as refused:
            Harness(sql, streams={"s": STREAM}, options=options)
        assert refused.value.code == "CHAIN_EXPRESSION"
