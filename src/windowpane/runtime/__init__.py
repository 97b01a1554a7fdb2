"""Runs pipelines: load, plan, start, drain, stop."""

from windowpane.runtime.pipeline import Pipeline, RunningPipeline

__all__ = ["Pipeline", "RunningPipeline"]
