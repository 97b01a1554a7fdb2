"""What a checkpoint keeps of the definition of a transform, so that an earlier plan can be planned again.

A plan that hands its windows over runs until the last of them is closed, and a removed transform until it has ended,
although pipeline.toml says otherwise by then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from windowpane.config import Options, PipelineConfig, Transform

_PLANNED = ("eventtime", "late_rule", "max_future_skew", "idle_timeout")
"""The options that plans depend on."""
_ROUTING = ("sinks", "side_output", "share", "group")
"""Fields of a transform that an earlier plan has from the current one."""


@dataclass(frozen=True)
class Definition:
    """The parts of pipeline.toml that a plan is made from, besides its streams and tables."""

    sql: str
    transform: dict[str, Any] = field(default_factory=dict)
    """The other keys of the transform."""
    options: dict[str, Any] = field(default_factory=dict)
    read: dict[str, str] = field(default_factory=dict)
    """The queries of transforms that it reads."""


def definition_of(config: PipelineConfig, name: str) -> Definition:
    """How a transform is defined now."""
    transform, options = config.transforms[name], config.options.dump()
    own = {key: value for key, value in transform.dump().items() if key not in ("sql", "sql_file")}
    used = {key: options[key] for key in _PLANNED if key in options}
    return Definition(transform.query, own, used, _read(config, name))


def _read(config: PipelineConfig, name: str) -> dict[str, str]:
    """All transforms whose names occur in the query, or in one of theirs."""
    found: dict[str, str] = {}
    texts = [config.transforms[name].query]
    while texts:
        words = {word.lower() for word in re.findall(r"[\w-]+", texts.pop())}
        for other, each in config.transforms.items():
            if other != name and other.lower() in words and other not in found:
                found[other] = each.query
                texts.append(each.query)
    return found


def redefined(config: PipelineConfig, name: str, definition: Definition) -> PipelineConfig:
    """The pipeline as it was for one transform. If the pipeline still has it, its sinks and routes are those of now."""
    transform = Transform.model_validate({**definition.transform, "sql": definition.sql})
    current = config.transforms.get(name)
    if current is not None:
        transform = transform.model_copy(update={key: getattr(current, key) for key in _ROUTING})
    others = {other: Transform.model_validate({"sql": sql}) for other, sql in definition.read.items()}
    planned = Options.model_validate(definition.options)
    fields = {Options.keys()[key]: getattr(planned, Options.keys()[key]) for key in _PLANNED}
    return config.model_copy(
        update={"transforms": {**others, name: transform}, "options": config.options.model_copy(update=fields)}
    )
