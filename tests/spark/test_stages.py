"""Every case cut into near and far stages, over several shards, with and without feedback. No Spark is started.

State goes through its entries after every micro-batch, and frames through the wire, just as on Spark.
"""

from __future__ import annotations

import pytest

from tests.cases.loader import CASES, Case, CaseQuery, differences, load_cases, run_case
from tests.spark.staged import Layout, staged

ALL = load_cases()
LAYOUTS = [*(Layout(shards, feedback=True) for shards in (1, 2, 7)), Layout(2, feedback=False)]


@pytest.mark.skipif(not ALL, reason=f"no cases: {CASES.name}/ is not beside the repository")
@pytest.mark.parametrize("case", ALL, ids=[case["id"] for case in ALL])
def test_case_in_stages(case: Case) -> None:
    query = CaseQuery(case)
    for layout in LAYOUTS:
        harness = staged(layout, query.sql(), **query.harness_arguments())
        lines = differences(case, run_case(case, harness))
        assert not lines, "\n".join([str(layout), query.sql(), *lines])
