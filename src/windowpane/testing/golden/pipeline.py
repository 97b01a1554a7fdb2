"""`pipeline FILE transform NAME` of a golden file: the query and its surroundings, taken from a pipeline.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from windowpane.config import PipelineConfig, load_pipeline, parse_stream
from windowpane.errors import WindowpaneError, nearest
from windowpane.plan.pipeline import plan_transforms, source_schema
from windowpane.testing.golden.model import Golden, StreamDeclaration
from windowpane.testing.golden.rows import BadLineError
from windowpane.testing.golden.sections import Section

_NAMED = re.compile(r"(?P<file>.+?)\s+transform\s+(?P<name>\S+)")


def take_pipeline(golden: Golden, section: Section) -> None:
    """Take SQL, streams, options and transform from the file; what the golden file declares overrides single keys."""
    section.alone()
    match = _NAMED.fullmatch(section.rest)
    if match is None:
        hint = "write `pipeline ../pipeline.toml transform NAME`"
        raise BadLineError(section.line.number, f"`{section.line.text}` names no transform", hint)
    path = Path(golden.file).parent / match["file"]
    try:
        config = load_pipeline(path)
        tables = PipelineConfig.spread(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except WindowpaneError as error:
        raise BadLineError(section.line.number, error.message, error.hint or "correct the pipeline first") from None
    if match["name"] not in config.transforms:
        hint = f"transforms: {nearest(match['name'], config.transforms)}"
        raise BadLineError(section.line.number, f"`{path}` has no transform `{match['name']}`", hint)
    golden.sql, golden.query_place = config.transforms[match["name"]].query, section.place
    golden.options = _merged(tables.get("options", {}), golden.options)
    golden.transform = _merged(tables["transforms"][match["name"]], golden.transform)
    golden.transforms = _others(config, tables["transforms"], match["name"]) | golden.transforms
    for name in _read_streams(config, match["name"]):
        _take_stream(golden, name, tables["streams"][name])


def _others(config: PipelineConfig, tables: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Mapping[str, Any]]:
    """The other transforms, which the query can read by name."""
    left_out = ("sql_file", "sink", "side_output")
    kept = {
        other: {key: value for key, value in table.items() if key not in left_out}
        for other, table in tables.items()
        if other != name
    }
    return {other: table | {"sql": config.transforms[other].query} for other, table in kept.items()}


def _read_streams(config: PipelineConfig, transform: str) -> list[str]:
    """The streams that the query names, all where it is refused: the file may expect that."""
    try:
        (plan,) = plan_transforms(config, transform)
    except WindowpaneError:
        return list(config.streams)
    return list(dict.fromkeys(stream.name for stream in plan.query.relation.streams))


def _take_stream(golden: Golden, name: str, settings: Mapping[str, Any]) -> None:
    """A stream without a schema, such as one of parquet files, is known once the golden file declares it."""
    declared = golden.streams.get(name)
    merged = _merged(settings, declared.settings if declared else {})
    if "schema" in merged:
        columns = source_schema(parse_stream(name, merged)) or ()
        golden.streams[name] = StreamDeclaration(columns, merged)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`, tables merged."""
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
