"""EXPLAIN: a plan as one structure of plain values, and that structure as text. JSON and text cannot disagree."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from windowpane.plan.build import Plan
from windowpane.plan.jobs import PlannedJob
from windowpane.plan.node import PlanNode, Printable

Section: TypeAlias = Literal["logical", "optimized", "physical"]
SECTIONS: tuple[Section, ...] = ("logical", "optimized", "physical")
WIDTH = 110
"""Longer lines are wrapped: first property by property, then item by item."""

_TITLES = {"logical": "Logical plan", "optimized": "Optimized logical plan", "physical": "Physical plan"}


def explain(plan: Plan, sections: tuple[Section, ...] = SECTIONS, job: PlannedJob | None = None) -> dict[str, Any]:
    """The structure that `--json` prints and `render` makes text of. Ids number the nodes in pre-order.

    `job`: the one that runs the transform, if its pipeline has several transforms.
    """
    roots = {"logical": plan.logical, "optimized": plan.optimized, "physical": plan.physical}
    return {
        "transform": plan.transform,
        "plan_id": plan.plan_id,
        "sql": plan.query.canonical,
        "rules": [{"rule": rule.name, "phase": rule.phase} for rule in plan.rules],
        "shards": plan.stages.describe_layout(),
        **({"job": job.describe(plan.transform)} if job is not None else {}),
        "notes": list(plan.notes),
        **{section: _structure(roots[section], itertools.count()) for section in sections},
    }


def _structure(node: PlanNode, ids: Iterator[int]) -> dict[str, Any]:
    own = next(ids)
    children = [_structure(child, ids) for child in node.children()]
    return {"id": own, "node": node.name, "properties": node.properties(), "children": children}


def render_json(structure: dict[str, Any] | list[dict[str, Any]]) -> str:
    return json.dumps(structure, indent=2, ensure_ascii=False)


def render(structure: dict[str, Any], width: int = WIDTH) -> str:
    """The structure of `explain` as text."""
    lines = [f"Plan {structure['plan_id']} of transform {structure['transform']}"]
    for section in SECTIONS:
        if section in structure:
            lines += ["", f"== {_TITLES[section]} ==", *_tree(structure[section], "", "", width)]
    rules = ", ".join(rule["rule"] for rule in structure["rules"])
    lines += ["", f"rules applied: {rules or '(none)'}", f"shards: {structure['shards']}"]
    lines += [f"job: {structure['job']}"] if "job" in structure else []
    lines += [f"note: {note}" for note in structure["notes"]]
    return "\n".join(lines)


def _tree(node: dict[str, Any], lead: str, below: str, width: int) -> Iterator[str]:
    """A node's lines: `lead` before the first of them, `below` before those that follow and before its children."""
    head = f"{lead}{node['node']}#{node['id']}"
    properties, children = node["properties"], node["children"]
    line = " ".join([head, *(_property(name, value) for name, value in properties.items())])
    if len(line) <= width:
        yield line
    else:
        yield head
        yield from _wrapped(properties, below + ("│    " if children else "     "), width)
    for position, child in enumerate(children):
        corner, bar = ("└─ ", "   ") if position == len(children) - 1 else ("├─ ", "│  ")
        yield from _tree(child, below + corner, below + bar, width)


def _property(name: str, value: Printable) -> str:
    return f"{name}={_value(value)}"


def _value(value: Printable) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"[{', '.join(value)}]" if isinstance(value, list) else str(value)


def _wrapped(properties: dict[str, Printable], bar: str, width: int) -> Iterator[str]:
    """Properties on as few lines as possible. A list that is too long for one line is wrapped."""
    line = ""
    for name, value in properties.items():
        text = _property(name, value)
        if line and len(bar) + len(line) + 1 + len(text) > width:
            yield bar + line
            line = ""
        if isinstance(value, list) and len(bar) + len(text) > width:
            yield from _wrapped_list(name, value, bar, width)
        else:
            line = f"{line} {text}" if line else text
    if line:
        yield bar + line


def _wrapped_list(name: str, items: list[str], bar: str, width: int) -> Iterator[str]:
    line, indent = f"{bar}{name}=[", bar + " " * (len(name) + 2)
    for position, item in enumerate(items):
        text = item + ("]" if position == len(items) - 1 else ",")
        if position and len(line) + 1 + len(text) > width:
            yield line
            line = indent + text
        else:
            line += f" {text}" if position else text
    yield line
