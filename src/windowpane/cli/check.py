"""`windowpane check`: the pipeline in words."""

from __future__ import annotations

import textwrap
from pathlib import Path

from windowpane.cli.figures import output_width
from windowpane.config import find_pipeline, load_pipeline
from windowpane.plan.build import Plan
from windowpane.plan.explain import render_json
from windowpane.plan.pipeline import missing_paths, plan_transforms
from windowpane.plan.pipeline_graph import PipelineGraph
from windowpane.plan.summary import summarize


def check_pipeline(path: Path | None, transform: str | None, *, as_json: bool) -> str:
    """The text to print; raises the error that the pipeline has."""
    config = load_pipeline(path or find_pipeline())
    plans = plan_transforms(config, transform)
    # The data may be on another machine, so this is no error here; `run` refuses it.
    warnings = list(missing_paths(config, plans))
    graph = PipelineGraph.of(config, plans)
    if as_json:
        found = {"file": config.file, "transforms": [_as_dict(plan) for plan in plans], "graph": graph.as_dict()}
        return config.redact(render_json(found | {"warnings": [warning.as_dict() for warning in warnings]}))
    blocks = [f"{config.file} is fine.", *([graph.tree()] if graph.is_nested else [])]
    blocks += [_as_text(plan) for plan in plans]
    blocks += [f"warning: {warning.render()}" for warning in warnings]
    return config.redact("\n\n".join(blocks))


def _as_dict(plan: Plan) -> dict[str, object]:
    return {
        "name": plan.transform,
        "plan_id": plan.plan_id,
        "summary": summarize(plan),
        "notes": list(plan.notes),
    }


def _as_text(plan: Plan) -> str:
    lines = summarize(plan)
    margin = max(map(len, lines)) + 4
    shown = [
        textwrap.fill(
            text,
            output_width(),
            initial_indent=f"  {label}".ljust(margin),
            subsequent_indent=" " * margin,
            break_long_words=False,
        )
        for label, text in lines.items()
    ]
    notes = [f"  note: {note}" for note in plan.notes]
    return "\n".join([plan.transform, *shown, *notes])
