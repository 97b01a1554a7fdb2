"""`get_json_object` as Spark evaluates it: paths of names and positions, over any text."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

from windowpane.evaluation.text_kernels import Unproven, mapped

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_FLAT = re.compile(r"-?[0-9]{1,7}\.[0-9]{1,8}")
Path = tuple[str | int, ...]


class _Malformed(Exception):  # noqa: N818  # no error of the user
    pass


def get_json_object(values: pa.Array, paths: pa.Array) -> pa.Array:
    """A path is a list of steps as JSON, the same for all values."""
    steps = tuple(json.loads(paths[0].as_py())) if len(paths) else ()
    return mapped(values, lambda given: _found(given, steps), pa.string())


def _found(text: str, steps: Path) -> str | None:
    try:
        value: Any = _parsed(text)
    except _Malformed:
        return None
    for step in steps:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return None
    return value if isinstance(value, str) else None if value is None else _written(value)


def _parsed(text: str) -> Any:
    if len(text) > 1_000_000 or text.count("[") + text.count("{") > 500 or "\\u" in text.lower():
        raise Unproven("a large or escaped JSON text")
    decoder = json.JSONDecoder(object_pairs_hook=_first, parse_float=_float, parse_int=_int, parse_constant=_constant,
                               strict=False)  # fmt: skip
    start = len(text) - len(text.lstrip(" \t\r\n"))
    try:
        return decoder.raw_decode(text, start)[0]
    except ValueError as fault:
        if "'" in text:
            raise Unproven("JSON with single quotes") from fault
        raise _Malformed from fault


def _first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


def _float(text: str) -> Any:
    """Only numbers that every version of Java writes as they are read."""
    if not _FLAT.fullmatch(text) or len(text) > 14:
        raise Unproven(f"the number {text}")
    value = float(text)
    if value != 0 and not 1e-3 <= abs(value) < 1e7:
        raise Unproven(f"the number {text}")
    return value


def _int(text: str) -> int:
    if text == "-0" or len(text) > 100:
        raise Unproven(f"the number {text}")
    return int(text)


def _constant(_: str) -> Any:
    raise _Malformed


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(name)}:{_written(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


def _quoted(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(char) or (char if char >= " " else f"\\u{ord(char):04X}") for char in text) + '"'
