"""Runs pipelines: load, plan, start, drain, stop. Spark is loaded with `Pipeline`, not with this package."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windowpane.runtime.job import RunningTransform
    from windowpane.runtime.pipeline import Pipeline
    from windowpane.runtime.running import RunningPipeline

__all__ = ["Pipeline", "RunningPipeline", "RunningTransform"]
_HOMES = {"Pipeline": "pipeline", "RunningPipeline": "running", "RunningTransform": "job"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
