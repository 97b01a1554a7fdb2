"""Queries that are bound and queries that are refused, each with exactly what a person or the planner gets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.sql.golden import CATALOG, Case, agree, load, summary
from windowpane.errors import SqlError
from windowpane.sql import bind, parse_schema

SOURCES = Path(__file__).parents[2] / "src" / "windowpane" / "sql"
TESTED_ELSEWHERE = {"UNSUPPORTED_IN_HARNESS", "FUNCTION_ARGUMENTS", "TOO_DEEP", "TOO_LONG", "BAD_CHARACTER"}
TESTED_ELSEWHERE |= {"DUPLICATE_NAME", "TRANSFORM_CYCLE", "TRANSFORM_SETTINGS"}
REFERENCE = Path(__file__).parents[2] / "docs" / "sql.md"


def test_queries_are_bound_as_recorded() -> None:
    agree("bound", [summary(bind(case.sql, CATALOG)) for case in load("bound")])


def test_queries_are_refused_as_recorded() -> None:
    agree("refused", [_refusal(case.sql) for case in load("refused")])


def test_schemas_are_refused_as_recorded() -> None:
    results = []
    for case in load("schemas"):
        with pytest.raises(SqlError) as refused:
            parse_schema(case.sql)
        results.append(refused.value.render())
    agree("schemas", results)


def _refusal(sql: str) -> str:
    with pytest.raises(SqlError) as refused:
        bind(sql, CATALOG)
    assert "\x1b" not in refused.value.render()
    return refused.value.render()


# The two sides of a join are told apart by internal names, which a query cannot write.
WITHOUT_JOINS = [case for case in load("bound") if "JOIN" not in case.sql]


@pytest.mark.parametrize("case", WITHOUT_JOINS, ids=str)
def test_the_canonical_text_is_a_fixed_point(case: Case) -> None:
    bound = bind(case.sql, CATALOG)
    again = bind(bound.canonical, CATALOG)
    assert (again.canonical, again.plan_id) == (bound.canonical, bound.plan_id)


def test_every_refusal_is_recorded_and_documented() -> None:
    cases = [case for name in ("refused", "schemas") for case in load(name)]
    seen = {code for case in cases for code in re.findall(r"^\[(\w+)\]", case.expected)}
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", REFERENCE.read_text(), re.MULTILINE))
    assert seen == documented - TESTED_ELSEWHERE
    queries = [path for path in SOURCES.glob("*.py") if path.name != "sampling.py"]  # which reads files, not queries
    raised = set(re.findall(r'[Ee]rror\(\s*"([A-Z_]+)"', "".join(path.read_text() for path in queries)))
    assert raised - {"BAD_EXPRESSION"} <= documented


@pytest.mark.parametrize("case", load("refused"), ids=str)
def test_the_caret_stands_under_the_query(case: Case) -> None:
    with pytest.raises(SqlError) as refused:
        bind(case.sql, CATALOG)
    span = refused.value.span
    if refused.value.code == "EMPTY_QUERY":
        assert span is None
    else:
        assert span is not None
        assert 0 <= span.start <= span.end <= len(case.sql)
