"""Cases from other systems' suites on real Spark, of every kind that can be expressed there."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from pyspark.sql import SparkSession

from tests.cases.loader import CASES, load_cases
from tests.spark.case_jobs import CaseJob, chosen
from tests.spark.jobs import Outcome, run_together

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not load_cases(), reason=f"no cases: {CASES.name}/ is not beside the repository"),
]

JOBS = {job.case["id"]: job for job in chosen(load_cases(), of_each=2)}
Outcomes: TypeAlias = dict[str, Outcome]


@pytest.fixture(scope="module")
def outcomes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    found: Outcomes = {}
    for drain in (False, True):
        jobs = {name: job.job(tmp_path_factory.mktemp("case")) for name, job in JOBS.items() if job.drain is drain}
        found |= dict(zip(jobs, run_together(spark, list(jobs.values()), drain=drain), strict=True))
    return found


def test_there_are_enough() -> None:
    kinds = {job.case["window"]["kind"] for job in JOBS.values()}
    assert len(JOBS) >= 40
    assert kinds == {"tumbling", "hopping", "session", "sliding", "count", "state", "watermark"}


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_case_on_spark(outcomes: Outcomes, job: CaseJob) -> None:
    lines = job.differences(outcomes[job.case["id"]])
    assert not lines, "\n".join([job.query.sql, *lines])
