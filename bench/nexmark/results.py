"""results.json: what was measured, part by part. A part that is run again replaces its own figures and no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

COMPARISON, LATENCY, SCALING, RUNS = "comparison", "latency", "scaling", "runs"
_KEYS: dict[str, tuple[str, ...]] = {COMPARISON: ("query",), LATENCY: ("engine",), SCALING: ("dimension", "value")}
"""What names a figure within its part."""


class Results:
    """The file in a folder, with what earlier runs have left in it."""

    def __init__(self, folder: Path, run: dict[str, Any]) -> None:
        """`run`: machine and arguments, which are kept beside the figures that are taken now."""
        folder.mkdir(parents=True, exist_ok=True)
        self._file, self._run = folder / "results.json", run
        self.parts: dict[str, Any] = _read(self._file)

    def keep(self, part: str, figures: list[dict[str, Any]]) -> None:
        """Written after every figure, so that what was measured is there if the rest fails."""
        known = {_key(part, one): one for one in self.figures(part)}
        known |= {_key(part, one): one | {"when": self._run["machine"]["when"]} for one in figures}
        self.parts[part] = list(known.values())
        self.parts.setdefault(RUNS, {})[part] = self._run
        text = json.dumps(self.parts, indent=1, ensure_ascii=False)
        unfinished = self._file.with_suffix(".new")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(self._file)

    def figures(self, part: str) -> list[dict[str, Any]]:
        return list(self.parts.get(part, []))


def _read(file: Path) -> dict[str, Any]:
    """A file that was cut off, or is of another form, is moved away."""
    if not file.exists():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return {part: found[part] for part in (*_KEYS, RUNS) if part in found}
    except (ValueError, TypeError):
        file.rename(file.with_suffix(".unreadable"))
        return {}


def _key(part: str, figure: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(figure.get(name) for name in _KEYS[part])
