"""Describes a checkpoint: its plan and progress from windowpane's own records, its state through Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from windowpane.checkpoint.backlog import Backlog
from windowpane.checkpoint.jobs import recorded_jobs
from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.plan_record import PlanRecord, check_same_query
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import Checkpoint, transform_checkpoint
from windowpane.errors import StateError, nearest
from windowpane.runtime.status import named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from windowpane.runtime.pipeline import Pipeline


def find_transforms(store: Store) -> dict[str, Checkpoint]:
    """The checkpoints of all transforms in `store`, or the one that `store` is; StateError if there is none."""
    whole = Checkpoint(store)
    if (record := whole.plan.read()) is not None:
        _refuse_shared(record, store)
        return {PurePosixPath(store.address()).name: whole}
    jobs = recorded_jobs(store)
    inside = {name: transform_checkpoint(store, name, jobs) for name in store.names()}
    found = {name: checkpoint for name, checkpoint in inside.items() if checkpoint.plan.exists()}
    if not found:
        hint = "windowpane run makes one when it first runs"
        raise StateError("NO_CHECKPOINT", f"there is no checkpoint in {store.address()}", hint)
    return found


def _refuse_shared(record: PlanRecord, store: Store) -> None:
    if record.job:
        name, whole = PurePosixPath(store.address()).name, PurePosixPath(store.address()).parent
        raise StateError(
            "CHECKPOINT_JOB",
            f"transform `{name}` shares the job `{record.job}`, and its state is not in {store.address()}",
            f"give the checkpoint of the pipeline, {whole}, and --transform {name}",
        )


def describe_checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    """Plan, shards, last batch, the watermark and the source partition that holds it."""
    record = checkpoint.record()
    last = checkpoint.ledger.last()
    return {
        "checkpoint": checkpoint.address,
        "plan_id": record.plan_id,
        "sql": record.sql,
        "shards": record.shards,
        "finished": checkpoint.is_finished(),
        "committed_batch": checkpoint.log.last_committed(),
        "last_batch": None if last is None else last.batch_id,
        "watermark_us": last.watermark_us if last else None,
        "held_by": last.held_by if last else None,
        "source_partitions": last.maxima if last else {},
        "open_windows": last.open_windows if last else 0,
        "totals": final_totals(last, checkpoint) if last else {},
        "waiting_results": waiting_results(checkpoint),
        "stages": {name: named(each) for name, each in last.stage_totals.items()} if last else {},
    }


def final_totals(last: Entry, checkpoint: Checkpoint) -> dict[str, int]:
    """Totals in which each row counts once, where it ended at last.

    Rows that were repaired are `repaired`, no longer late, evicted or errors. Those that were replayed are where the
    stream has put them since. `last`: the last entry of the ledger.
    """
    totals, moved = named(last.totals), checkpoint.repairs.repaired()
    again = Counter(last.sums.get("replayed", {}))
    left = {kind: totals.get(kind, 0) - count for kind, count in (moved + again).items()}
    twice = {name: totals.get(name, 0) - again.total() for name in ("in", "made")} if again else {}
    return totals | left | twice | ({"repaired": moved.total()} if moved else {})


def waiting_results(checkpoint: Checkpoint) -> dict[str, dict[str, Any]]:
    """Results that sinks have not taken yet, by sink, if there are any."""
    found: dict[str, dict[str, Any]] = {}
    for sink, outbox in checkpoint.result_outboxes().items():
        backlog = Backlog.of(outbox.files())
        if backlog:
            found[sink] = backlog.as_dict() | {"address": outbox.address()}
    return found


def ledger_entries(checkpoint: Checkpoint, count: int) -> list[Entry]:
    """The last entries of the ledger, oldest first."""
    ids = checkpoint.ledger.batch_ids()[-count:] if count else []
    return [entry for entry in map(checkpoint.ledger.read, ids) if entry is not None]


_BY_STAGE = ("stages", "stage_totals")


def ledger_as_dicts(entries: list[Entry]) -> list[dict[str, Any]]:
    return [
        asdict(entry)
        | {"accounting": named(entry.accounting), "totals": named(entry.totals)}
        | {name: {stage: named(each) for stage, each in getattr(entry, name).items()} for name in _BY_STAGE}
        for entry in entries
    ]


def read_state_of(pipeline: Pipeline, transforms: dict[str, Checkpoint]) -> dict[str, list[dict[str, Any]]]:
    """What the state of each transform holds, per shard and window or pane. Starts Spark."""
    from windowpane.runtime.stopped_jobs import job_stages_of, versions_at  # noqa: PLC0415  # Spark is loaded when it is needed
    from windowpane.spark.inspecting import read_holdings  # noqa: PLC0415
    from windowpane.spark.session import create_session, prepare_session  # noqa: PLC0415

    spark = create_session(pipeline.config.spark, base=pipeline.config.base_dir, log=pipeline.log)
    found: dict[str, list[dict[str, Any]]] = {}
    try:
        for plan in pipeline.plans:
            checkpoint = transforms.get(plan.transform)
            if checkpoint is None or checkpoint.log.last_committed() < 0:
                continue
            check_same_query(checkpoint.record(), plan, checkpoint.address)
            prepare_session(spark, checkpoint.record().shards)
            job = job_stages_of(spark, pipeline, plan, checkpoint)
            last = checkpoint.log.last_committed()
            versions = versions_at(pipeline, plan, checkpoint)
            found[plan.transform] = [
                row | ({"operator": f"version {number}: {row['operator']}"} if len(versions) > 1 else {})
                for number, tag in ((each.checkpoint.version, each.checkpoint.state_tag) for each in versions)
                for row in _holdings(read_holdings(spark, checkpoint.spark, job, last, tag))
            ]
    finally:
        spark.stop()
    return found


def _holdings(held: DataFrame) -> list[dict[str, Any]]:
    """By operator, and in the order of time."""
    return [row.asDict() for row in held.orderBy("operator", "start_us", "what", "shard").collect()]


def only(transforms: dict[str, Checkpoint], name: str | None) -> dict[str, Checkpoint]:
    """All of them, or the one called `name`."""
    if name is None:
        return transforms
    if name not in transforms:
        hint = f"transforms: {nearest(name, transforms)}"
        raise StateError("UNKNOWN_TRANSFORM", f"there is no checkpoint of transform `{name}`", hint)
    return {name: transforms[name]}
