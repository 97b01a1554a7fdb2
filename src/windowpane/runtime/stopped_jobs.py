"""The stages of a job that does not run, to look into its state or to change it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from windowpane.checkpoint.job_claims import Claimed
from windowpane.checkpoint.jobs import JobFile
from windowpane.checkpoint.transform import Checkpoint, transform_checkpoint
from windowpane.errors import StateError
from windowpane.plan.build import Plan
from windowpane.runtime.pipeline import Pipeline
from windowpane.runtime.sources import pipeline_sources
from windowpane.runtime.versions import versions_of
from windowpane.spark.dataflow import build_dataflow
from windowpane.spark.job_inputs import JobMember
from windowpane.spark.job_stages import JobStages


def job_stages_of(
    spark: SparkSession, pipeline: Pipeline, plan: Plan, checkpoint: Checkpoint, shards: int | None = None
) -> JobStages:
    """The stages of the job that a transform belongs to. `shards`: another number than the state has."""
    members = []
    for each in job_plans(pipeline, plan, checkpoint):
        own = transform_checkpoint(pipeline.store, each.transform) if checkpoint.job else checkpoint
        for version in versions_at(pipeline, each, own):
            sources = pipeline_sources(spark, pipeline.config, version.plan, version.checkpoint)
            members.append(JobMember(version.plan, sources, version.checkpoint.state_tag, spread=version.record.spread))
    whole = checkpoint.record()
    count = shards or whole.shards
    return build_dataflow(spark, members, shards=count, feedback=True, ticks=False, steps=whole.steps).job


def versions_at(pipeline: Pipeline, plan: Plan, checkpoint: Checkpoint) -> list[Claimed]:
    """The versions of a transform, each with its plan under the names that its state has; the current one last."""
    record = checkpoint.record()
    return versions_of(pipeline.config, Claimed(plan, checkpoint.of_version(record.version), record))


def job_plans(pipeline: Pipeline, plan: Plan, checkpoint: Checkpoint) -> list[Plan]:
    """The plans of all transforms of the job that `plan` belongs to; StateError if the pipeline lacks one."""
    shared = None if checkpoint.job is None else JobFile(checkpoint.job).read()
    if shared is None:
        return [plan]
    plans = {each.transform: each for each in pipeline.plans}
    missing = [name for name in shared.transforms if name not in plans]
    if missing:
        raise StateError(
            "CHECKPOINT_JOB",
            f"`{missing[0]}` shares the job `{checkpoint.job_name}`, and is not among the transforms here",
            "name the pipeline.toml that has all of them, without --transform",
        )
    return [plans[name] for name in shared.transforms]
