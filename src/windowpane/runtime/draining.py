"""The end of a job: process the remaining input, emit every open window, deliver side rows, finish."""

from __future__ import annotations

import logging
import threading

from windowpane.runtime.job import AVAILABLE_NOW, RunningJob, RunningTransform
from windowpane.spark.ending import end_batch

_POLL_SECONDS = 0.25
_log = logging.getLogger("windowpane.run")


def drain(job: RunningJob, asked_to_stop: threading.Event) -> bool:
    """Process what is available, emit everything open, and finish the checkpoint. False if asked to stop before."""
    job.finish_input()
    if not (_ended_unless(job, asked_to_stop) and _empty_queue(job, asked_to_stop)):
        return False
    checkpoint = job.checkpoint
    last = checkpoint.log.last_committed()
    entries = checkpoint.ledger.read_all(last).values()
    if entries:
        flow, clock_us = job.dataflow, max(entry.clock_us for entry in entries)
        stages = flow.job.only(job.runner.running(last + 1))
        end = end_batch(job.runner.spark, checkpoint.spark, stages, last, clock_us=clock_us, shard_ids=flow.shard_ids)
        job.run_batch(end, last + 1, final=True)
    for transform in job.transforms:
        settle(transform, for_good=True)
    checkpoint.finish(last + 1)
    return True


def settle(transform: RunningTransform, *, for_good: bool) -> None:
    """Let rows reach the sinks that accept them, and log what is left. `for_good`: the pipeline is finished."""
    checkpoint, side, name = transform.checkpoint, transform.runner.side, transform.plan.transform
    for sink, rows in transform.runner.output.settle().items():
        where = checkpoint.result_outbox(sink).address()
        what = "transform `%s`: %s results for sink `%s` stay in %s, and the next start delivers them"
        _log.warning(what, name, f"{rows:,}", sink, where)
    for sink, rows in side.settle(for_good=for_good).items():
        if for_good:
            what = f"they are in {checkpoint.write_undelivered(sink, side.channels[sink].undelivered_records())}"
        else:
            what = f"they stay in {checkpoint.outbox(sink).address()}, and the next start delivers them"
        _log.warning("transform `%s`: side sink `%s` has %s undelivered rows: %s", name, sink, f"{rows:,}", what)


def _ended_unless(job: RunningJob, asked_to_stop: threading.Event) -> bool:
    while not job.has_delivered(_POLL_SECONDS):
        if asked_to_stop.is_set():
            return False
    return True


def _empty_queue(job: RunningJob, asked_to_stop: threading.Event) -> bool:
    """Read queued side rows again. Every round brings a row nearer to the limit of its reinjections."""
    checkpoint, done = job.checkpoint, None
    while (last := checkpoint.log.last_committed()) != done:
        entries, done = checkpoint.ledger.read_all(last).values(), last
        if any(entry.reinjecting for entry in entries):
            job.begin(AVAILABLE_NOW)
            if not _ended_unless(job, asked_to_stop):
                return False
    return True
