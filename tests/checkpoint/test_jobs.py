"""Jobs of several transforms in a checkpoint: what they share, which transforms a start runs together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.checkpoint.memory_store import MemoryStore
from windowpane.checkpoint.job_claims import Claimed, admit_jobs, claim_jobs
from windowpane.checkpoint.job_folders import job_folders
from windowpane.checkpoint.job_members import Consent
from windowpane.checkpoint.jobs import recorded_jobs
from windowpane.checkpoint.ledger import Entry, Ledger
from windowpane.checkpoint.outbox import PendingBatch
from windowpane.checkpoint.resetting import check_whole_jobs, remove_checkpoints
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import Checkpoint, transform_checkpoint
from windowpane.config import Options, parse_pipeline
from windowpane.core.accounting import Accounting
from windowpane.errors import StateError
from windowpane.plan.jobs import PlannedJob, plan_jobs
from windowpane.plan.pipeline import plan_pipeline
from windowpane.runtime.inspection import find_transforms

OPTIONS = Options(shards=3)


def planned(*names: str, **more: dict[str, Any]) -> tuple[PlannedJob, ...]:
    sql = "SELECT k, count(*) AS n FROM s GROUP BY k, tumblingwindow('ss', {})"
    stream = {"format": "json", "path": "in", "schema": "ts BIGINT, k STRING"}
    config = parse_pipeline(
        {
            "streams": {"s": stream},
            "transforms": {name: {"sql": sql.format(ord(name)), "sink": "out", **more.get(name, {})} for name in names},
            "sinks": {"out": {"format": "console"}},
        }
    )
    return plan_jobs(config, plan_pipeline(config))


def names(claims: list[list[Claimed]]) -> list[list[str]]:
    return [[each.plan.transform for each in job] for job in claims]


@pytest.fixture
def store() -> Store:
    return MemoryStore()


def test_new_transforms_over_a_stream_share_a_job_and_keep_it(store: Store) -> None:
    admit_jobs(store, planned("a", "b", "c"), OPTIONS)
    assert not store.names(), "nothing is written before the lease is held"
    first = claim_jobs(store, planned("a", "b", "c", b={"share": False}), OPTIONS)
    assert names(first) == [["a", "c"], ["b"]]
    assert {each.checkpoint.tag: each.record.job for job in first for each in job} == {"a": "s", "c": "s", "": ""}
    assert recorded_jobs(store)["s"].transforms == ["a", "c"]
    again = claim_jobs(store, planned("a", "b", "c", "d"), OPTIONS)
    assert names(again) == [["a", "c", "d"], ["b"]], "one that is added later comes to the job"
    assert [each.record.shards for job in again for each in job] == [3, 3, 3, 3]


def test_new_transforms_come_to_one_that_was_a_job_by_itself(store: Store) -> None:
    for job in planned("a", "b"):
        for plan in job.plans:
            Checkpoint(store.below(plan.transform)).claim(plan, 3)
    first = claim_jobs(store, planned("a", "b", "c", "d"), OPTIONS)
    assert names(first) == [["a", "c", "d"], ["b"]]
    assert [each.checkpoint.state_tag for each in first[0]] == ["", "c", "d"]
    assert {each.checkpoint.job_address for each in first[0]} == {store.address("a")}
    assert names(claim_jobs(store, planned("a", "b", "c", "d"), OPTIONS)) == names(first)
    assert {job.name: job.homes for job in job_folders(store)} == {"a": ("a", "c", "d"), "b": ("b",)}


def test_a_job_without_transforms_is_reported_and_dropped_with_consent(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    claim_jobs(store, planned("a", "b", "c", c={"share": False}), OPTIONS)
    Checkpoint(store.below("c")).outbox("out").put(PendingBatch(1, [], ["{}"]))
    later = planned("d", d={"share": False})
    with pytest.raises(StateError, match="`a`, `b` cannot be drained: the pipeline has no transform of the job left"):
        admit_jobs(store, later, OPTIONS, consent=Consent(drain_removed=True, defined=frozenset("d")))
    claim_jobs(store, later, OPTIONS, consent=Consent(defined=frozenset("d")))
    assert "the state of `a`, `b`, which the pipeline no longer has: windowpane run --evolve removes it" in caplog.text
    assert set(store.names()) == {"a", "b", "c", "d", "jobs"}
    caplog.clear()
    claim_jobs(store, later, OPTIONS, consent=Consent(evolve=True, defined=frozenset("d")))
    assert "removed the state of `a`, `b`, which the pipeline no longer has" in caplog.text
    assert "removed the state of `c`, which the pipeline no longer has, with 1 side rows" in caplog.text
    assert store.names() == ["d"]
    assert not recorded_jobs(store)


def test_the_order_of_sources_is_kept(store: Store) -> None:
    """Spark knows its sources by their numbers."""
    first = claim_jobs(store, planned("a", "b"), OPTIONS)[0][0].checkpoint
    first.note_query(2, ["s", "t"])
    first.note_query(3, ["t", "s"])
    again = claim_jobs(store, planned("a", "b"), OPTIONS)
    assert [(each.record.steps, each.record.sources) for each in again[0]] == [(2, ["s", "t"])] * 2


def test_removed_transforms_are_dropped_and_come_back_with_a_state_of_their_own(store: Store) -> None:
    claim_jobs(store, planned("a", "b", "c"), OPTIONS)
    agreed = Consent(evolve=True, defined=frozenset("ac"))
    with pytest.raises(StateError, match="no longer has `b`"):
        admit_jobs(store, planned("a", "c"), OPTIONS, consent=Consent(defined=frozenset("ac")))
    assert names(claim_jobs(store, planned("a", "c"), OPTIONS, consent=agreed)) == [["a", "c"]]
    assert recorded_jobs(store)["s"].dropped == ["b"]
    assert not store.below("b").names()
    ((_, _, back),) = claim_jobs(store, planned("a", "c", "b"), OPTIONS)
    assert (back.plan.transform, back.checkpoint.state_tag) == ("b", "b~2")


def test_removed_transforms_leave_once_they_have_emitted_their_windows(store: Store) -> None:
    claim_jobs(store, planned("a", "b"), OPTIONS)
    agreed = Consent(drain_removed=True, defined=frozenset("a"))
    again = {"b": planned("b")[0].plans[0]}
    ((first, leaving),) = claim_jobs(store, planned("a"), OPTIONS, consent=agreed, replan=lambda name, _: again[name])
    assert (first.leaves, leaving.leaves, leaving.plan.transform) == (False, True, "b")
    assert recorded_jobs(store)["s"].leaving == ["b"]


def test_a_start_that_was_cut_short_is_taken_up(store: Store) -> None:
    claim_jobs(store, planned("a", "b"), OPTIONS)
    store.below("b").delete("plan.json")
    assert names(claim_jobs(store, planned("a", "b"), OPTIONS)) == [["a", "b"]]
    assert transform_checkpoint(store, "b").record().job == "s"


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (planned("a"), "this run is without `b`"),
        (planned("a", "b", b={"share": False}), "the configuration keeps some of them apart"),
    ],
)
def test_a_job_is_not_torn_apart(store: Store, now: tuple[PlannedJob, ...], reason: str) -> None:
    claim_jobs(store, planned("a", "b"), OPTIONS)
    for refuse in (admit_jobs, claim_jobs):
        with pytest.raises(StateError, match=reason) as raised:
            refuse(store, now, OPTIONS)
        assert raised.value.code == "CHECKPOINT_JOB"


def entry(batch_id: int, results: int, fence: int = 0) -> Entry:
    counts = Accounting().as_dict()
    return Entry(batch_id, 0, None, counts, counts, results=results, fence=fence)


def test_one_object_of_the_ledger_has_an_entry_for_each_transform(store: Store) -> None:
    ledger = Ledger(store, "b")
    ledger.write_all({"a": entry(0, 1), "b": entry(0, 2)})
    assert ledger.read_all(0) == {"a": entry(0, 1), "b": entry(0, 2)}
    assert [Ledger(store, tag).last() for tag in ("a", "b", "c")] == [entry(0, 1), entry(0, 2), None]
    ledger.write_all({"a": entry(0, 3, fence=2), "b": entry(0, 4, fence=2)})
    with pytest.raises(StateError, match=r"LEASE_LOST|has taken over"):
        ledger.write_all({"a": entry(0, 5, fence=1), "b": entry(0, 6, fence=1)})
    assert ledger.read(0) == entry(0, 4, fence=2)
    store.replace("000000000001.json", b'{"format": 1, "batch_id": 1, "transforms": [1]}')
    with pytest.raises(StateError, match="does not have an entry for each transform"):
        ledger.read(1)


def test_all_transforms_of_a_job_are_reset_together(store: Store, tmp_path: Path) -> None:
    claim_jobs(store, planned("a", "b", "c", c={"share": False}), OPTIONS)
    found = find_transforms(store)
    assert set(found) == {"a", "b", "c"}
    with pytest.raises(StateError, match="leave out --transform"):
        check_whole_jobs({"a": found["a"]})
    check_whole_jobs({"c": found["c"]})
    check_whole_jobs(found)
    with pytest.raises(StateError, match="shares the job `s`"):
        find_transforms(store.below("a"))
    found["a"].ledger.write_all({"a": entry(0, 1), "b": entry(0, 2)})
    remove_checkpoints(list(found.values()))
    assert not [name for name in ("a", "b", "c") if store.below(name).names()]
    assert not recorded_jobs(store)
    assert not store.below("jobs/s").names()
