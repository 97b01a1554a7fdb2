"""`why --group`: why a group is missing from the results: filtered, HAVING, late, or never there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from windowpane.errors import ConfigError, nearest
from windowpane.runtime.asking.asked import Answer, Asked, counted
from windowpane.runtime.asking.side_files import read_side_records, side_sinks
from windowpane.runtime.asking.sink_rows import results_of_group


def parse_group(asked: Asked, text: str) -> dict[str, Any]:
    """A group as JSON, or as `auction=7,city=Berlin`; ConfigError for a key that the query does not have."""
    given = text.strip()
    if given.startswith("{"):
        try:
            group = json.loads(given)
        except ValueError as bad:
            raise ConfigError("BAD_JSON", f"--group is not JSON: {bad}", "write it like '{\"auction\": 7}'") from None
    else:
        pairs = [part.partition("=") for part in given.split(",")]
        if not all(sign for _, sign, _ in pairs):
            raise ConfigError("BAD_GROUP", f"`{text}` names no group", "write it like auction=7 or '{\"auction\": 7}'")
        group = {name.strip(): value.strip() for name, _, value in pairs}
    known = [key.label for key in asked.plan.stages.first_window.keys]
    for name in group:
        if name not in known:
            hint = f"its keys: {nearest(name, known)}" if known else "it has no keys beside the window"
            raise ConfigError("UNKNOWN_KEY", f"transform `{asked.name}` has no group key `{name}`", hint)
    return dict(group)


def why_group(asked: Asked, group: Mapping[str, Any]) -> Answer:
    facts: dict[str, Any] = {}
    return Answer(asked.name, group_lines(asked, group, facts), facts)


def group_lines(
    asked: Asked, group: Mapping[str, Any], facts: dict[str, Any], window: tuple[int, int] | None = None
) -> list[str]:
    """What sinks, side outputs, the plan and the ledger can tell of a group, and what they cannot."""
    named = ", ".join(f"{name} = {value}" for name, value in group.items())
    facts["group"] = dict(group)
    lines = _in_results(asked, group, named, facts, window)
    lines += _in_side_outputs(asked, group, facts, window)
    lines += _in_plan(asked, facts)
    return lines


def _in_results(
    asked: Asked, group: Mapping[str, Any], named: str, facts: dict[str, Any], window: tuple[int, int] | None
) -> list[str]:
    found = results_of_group(asked, group, window)
    facts["results"], facts["unread_sinks"] = found.rows, found.unread
    lines = []
    if found.read:
        where = ", ".join(f"`{name}`" for name in found.read)
        if found.rows:
            lines.append(f"The group {named} has {counted(found.rows, 'result')} in {where}.")
        else:
            lines.append(f"The group {named} has no result in {where}.")
    if found.unread:
        lines.append(f"Not read here: {', '.join(f'`{name}` ({why})' for name, why in found.unread.items())}.")
    return lines


def _in_side_outputs(
    asked: Asked, group: Mapping[str, Any], facts: dict[str, Any], window: tuple[int, int] | None
) -> list[str]:
    records = [each for each in read_side_records(asked) if each.in_group(group)]
    records = [each for each in records if window is None or each.in_window(*window)]
    kinds = Counter((each.kind, each.reason) for each in records)
    facts["side_rows"] = {f"{kind}/{reason}": count for (kind, reason), count in kinds.items()}
    lines = [f"Side output: {counted(count, 'row')} of the group {_were(count)} `{kind}` ({reason})."
             for (kind, reason), count in kinds.most_common()]  # fmt: skip
    if records:
        lines.append(f"One of them: windowpane why --late {records[0].id}")
    sinks, totals = side_sinks(asked), asked.last.totals if asked.last else {}
    lost = {kind: totals.get(kind, 0) for kind in sinks.uncollected if totals.get(kind)}
    if lost:
        counts = ", ".join(f"{count:,} {kind}" for kind, count in lost.items())
        lines.append(f"Rows that were only counted may be of this group: {counts}. Route them to a sink to know.")
    if sinks.unreadable:
        lines.append(f"Side records in {', '.join(sinks.unreadable)} are not read here.")
    return lines


def _were(count: int) -> str:
    return "is" if count == 1 else "are"


def _in_plan(asked: Asked, facts: dict[str, Any]) -> list[str]:
    totals = asked.last.totals if asked.last else {}
    lines = []
    if asked.plan.stages.input.where is not None or totals.get("filtered"):
        lines.append(f"WHERE has excluded {counted(totals.get('filtered', 0), 'row')}. They are counted, not kept: "
                     "whether they are of this group cannot be known. Ask with --row.")  # fmt: skip
    steps = [step.clause for step in asked.plan.stages.result.steps if hasattr(step, "clause")]
    facts["filtered_rows"], facts["has_result_steps"] = totals.get("filtered", 0), bool(asked.plan.stages.result.steps)
    if asked.plan.stages.result.steps:
        what = ", ".join(dict.fromkeys(steps)) or "HAVING, LIMIT or a filter"
        lines.append(f"{what} over the results may have removed it: such results are not kept.")
    open_windows = asked.last.open_windows if asked.last else 0
    if open_windows and not asked.finished:
        lines.append(f"{counted(open_windows, 'window')} {'is' if open_windows == 1 else 'are'} open, and may hold the "
                     "group: windowpane inspect reads the state.")  # fmt: skip
    if not facts.get("results") and not facts.get("side_rows"):
        lines.append("Neither results nor side rows know the group. If none of the above holds, it was never in the "
                     "input.")  # fmt: skip
    return lines
