"""The outcomes of rows are one table: whatever counts, routes or shows them has the same names."""

from __future__ import annotations

import ast
import json
from dataclasses import fields
from pathlib import Path

import windowpane
from windowpane.config.transforms import SideOutput
from windowpane.core.accounting import Accounting
from windowpane.outcomes import BUFFERED, OUTCOMES, SIDE_KINDS

SRC = Path(windowpane.__file__).parent
NAMES = [outcome.name for outcome in OUTCOMES]


def test_accounting_and_routes_have_all_outcomes() -> None:
    assert [field.name for field in fields(Accounting)] == ["made", "in_", *NAMES, BUFFERED.name]
    assert set(SideOutput.model_fields) == set(SIDE_KINDS) <= set(NAMES)
    schema = json.loads((SRC.parents[1] / "docs" / "side-record.schema.json").read_text(encoding="utf-8"))
    assert set(schema["properties"]["kind"]["enum"]) == set(SIDE_KINDS)


def test_no_other_module_lists_them() -> None:
    found = [
        f"{path.relative_to(SRC)}:{node.lineno}"
        for path in sorted(SRC.rglob("*.py"))
        if path.name != "outcomes.py"
        if sum(f'"{name}"' in (text := path.read_text(encoding="utf-8")) for name in NAMES) > 3
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict) and len(set(NAMES) & _texts(node)) > 3
    ]
    assert not found


def _texts(node: ast.Tuple | ast.List | ast.Set | ast.Dict) -> set[str]:
    items = node.keys if isinstance(node, ast.Dict) else node.elts
    return {item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)}
