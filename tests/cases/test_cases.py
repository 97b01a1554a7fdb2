"""Every case from other systems' suites, where the folder beside the repository has them."""

from __future__ import annotations

import pytest

from tests.cases.loader import CASES, Case, CaseQuery, differences, load_cases, run_case

ALL = load_cases()


@pytest.mark.skipif(not ALL, reason=f"no cases: {CASES.name}/ is not beside the repository")
def test_there_are_cases() -> None:
    assert len({case["id"] for case in ALL}) == len(ALL)


@pytest.mark.parametrize("case", ALL, ids=[case["id"] for case in ALL])
def test_case(case: Case) -> None:
    outcome = run_case(case)
    lines = differences(case, outcome)
    assert not lines, "\n".join([CaseQuery(case).sql(), case.get("notes", ""), *lines])
