"""The JSON schema of pipeline.toml for editors. `python -m windowpane.config.schema` prints it."""

from __future__ import annotations

import json
import sys
from typing import Any

from windowpane.config.durations import OFF, Trigger
from windowpane.config.models import DEFAULT_MAX_FUTURE_SKEW_US, EventtimeOptions
from windowpane.config.pipeline import PipelineConfig
from windowpane.config.values import IDENTIFIER_PATTERN, LABEL_PATTERN
from windowpane.time import format_duration

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DEFAULTS = {
    ("EventtimeOptions", "late_tolerance"): format_duration(0),
    ("Options", "max_future_skew"): format_duration(DEFAULT_MAX_FUTURE_SKEW_US),
    ("Options", "idle_timeout"): OFF,
    ("Options", "trigger"): str(Trigger()),
}

_NAMES = {
    "streams": IDENTIFIER_PATTERN,
    "tables": IDENTIFIER_PATTERN,
    "transforms": LABEL_PATTERN,
    "sinks": LABEL_PATTERN,
}


def json_schema() -> dict[str, Any]:
    """What editors check a pipeline.toml against. References between tables are beyond it."""
    schema = _tidy(PipelineConfig.model_json_schema(by_alias=True))
    definitions = schema["$defs"]
    for (model, key), default in _DEFAULTS.items():
        definitions[model]["properties"][key]["default"] = default
    for model in ("Stream", "Table"):
        definitions[model]["required"] = ["format"]
    for section, pattern in _NAMES.items():
        schema["properties"][section]["propertyNames"] = {"pattern": pattern}
    _add_synonyms(definitions["EventtimeOptions"], EventtimeOptions.synonyms)
    del definitions["Transform"]["properties"]["sink"]["default"]
    definitions["Transform"]["required"] = ["sink"]
    definitions["Transform"]["oneOf"] = [{"required": ["sql"]}, {"required": ["sql_file"]}]
    schema["required"] = ["streams", "transforms", "sinks"]
    return {"$schema": _DIALECT, "title": "windowpane pipeline", **schema}


def _add_synonyms(definition: dict[str, Any], synonyms: dict[str, str]) -> None:
    for other, key in synonyms.items():
        same = {name: item for name, item in definition["properties"][key].items() if name != "default"}
        definition["properties"][other] = same | {"description": f"The same as {key}."}


def render_schema() -> str:
    """The schema as the text of docs/windowpane.schema.json."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _tidy(node: Any, *, names_keys: bool = False) -> Any:
    """Without pydantic's titles, which only repeat keys, and without `null`, which TOML does not have."""
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    tidy = {name: _tidy(item, names_keys=name in {"properties", "$defs"}) for name, item in node.items()}
    return tidy if names_keys else _without_null({name: item for name, item in tidy.items() if name != "title"})


def _without_null(node: dict[str, Any]) -> dict[str, Any]:
    if node.get("default", 0) is None:
        del node["default"]
    choices = [choice for choice in node.get("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1 and len(node["anyOf"]) > 1:
        rest = {name: item for name, item in node.items() if name != "anyOf"}
        return {**choices[0], **rest}
    return node


if __name__ == "__main__":
    sys.stdout.write(render_schema())
