"""How far the jobs of a block have come: now and then a line with the tasks that are done."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator

from py4j.protocol import Py4JError
from pyspark import SparkContext

EVERY_SECONDS = 10.0


@contextlib.contextmanager
def told_progress(
    context: SparkContext, name: str, tell: Callable[[str], None], every_seconds: float = EVERY_SECONDS
) -> Iterator[None]:
    """Calls `tell` from a thread of its own, as long as the block runs."""
    group, done = f"windowpane-{uuid.uuid4().hex}", threading.Event()
    context.setJobGroup(group, name)

    def watch() -> None:
        while not done.wait(every_seconds):
            # Spark may be gone; the block itself says so.
            with contextlib.suppress(Py4JError, OSError):
                told = describe_stages(context, group)
                if told:
                    tell(f"{name}: {told}")

    thread = threading.Thread(target=watch, name="windowpane-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        context.setLocalProperty("spark.jobGroup.id", "")


def describe_stages(context: SparkContext, group: str) -> str:
    """`12 of 40 tasks are done` of the stages that run; empty if none does."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = {stage for job in jobs if job is not None and job.status == "RUNNING" for stage in job.stageIds}
    found = [info for info in map(tracker.getStageInfo, stages) if info is not None and info.numActiveTasks]
    if not found:
        return ""
    return f"{sum(info.numCompletedTasks for info in found)} of {sum(info.numTasks for info in found)} tasks are done"
