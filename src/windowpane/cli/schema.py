"""`windowpane schema`: the JSON schema of pipeline.toml, or the schema of sample files to paste into it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from windowpane.config.schema import json_schema
from windowpane.sql.sampling import sample_files


def print_schema(files: Sequence[Path], rows: int, *, as_json: bool) -> str:
    """The text to print."""
    if not files:
        return json.dumps(json_schema(), indent=2, ensure_ascii=False)
    found = sample_files(files, rows)
    if as_json:
        return json.dumps(asdict(found), indent=2, ensure_ascii=False)
    lines = [f"schema = {json.dumps(found.ddl, ensure_ascii=False)}"]
    if found.misfits:
        lines += ["", *(f"# {misfit.render()}" for misfit in found.misfits)]
    if found.others:
        lines.append(f"# and {found.others} more")
    return "\n".join(lines)
