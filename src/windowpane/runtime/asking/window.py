"""`why --window`: why a window has not come out, or when it did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windowpane.core.windows import AlignedSpec, Session, WindowSpec
from windowpane.errors import ConfigError
from windowpane.plan.stages import ChainStage
from windowpane.runtime.asking.asked import Answer, Asked, counted, now_us, shown, span
from windowpane.runtime.asking.group import group_lines
from windowpane.runtime.asking.holding import Holding
from windowpane.runtime.asking.instants import meant_instant, window_at
from windowpane.runtime.asking.side_files import read_side_records


def why_window(asked: Asked, text: str, group: Mapping[str, Any] | None = None) -> Answer:
    """`text`: when the window begins, or an instant within it."""
    spec = _spec(asked)
    near_us = asked.watermark_us if asked.watermark_us is not None else now_us()
    at_us = meant_instant(text, near_us, now_us())
    bounds = window_at(spec, at_us)
    if bounds is None:
        nowhere = f"No window contains {shown(at_us)}: {spec.words()}."
        return Answer(asked.name, [nowhere], {"state": "no_window", "at_us": at_us})
    start_us, end_us = bounds
    holding = Holding.of(asked)
    needed_us = asked.closing_us(end_us)
    facts: dict[str, Any] = {"window": {"start_us": start_us, "end_us": end_us}, "closes_at_watermark_us": needed_us}
    title = f"The window from {shown(start_us)} to {shown(end_us)}"
    if asked.is_closed(end_us) or asked.finished:
        lines, more = _came_out(asked, title, needed_us)
    else:
        lines, more = _is_open(asked, title, needed_us, holding)
    facts |= more | holding.facts()
    lines += _late_rows(asked, start_us, end_us, facts)
    if group is not None:
        lines += group_lines(asked, group, facts, window=bounds)
    return Answer(asked.name, lines, facts)


def _spec(asked: Asked) -> AlignedSpec:
    window = asked.window
    spec: WindowSpec | None = window.spec if window else None
    if asked.time is None or not isinstance(spec, AlignedSpec):
        what = "has windows of single groups" if isinstance(spec, Session) else "has no windows that time alone defines"
        what = "uses processing time" if asked.time is None else what
        raise ConfigError(
            "WHY_WINDOW", f"transform `{asked.name}` {what}, so --window cannot name one",
            "ask about a row instead: windowpane why --row '{…}'",
        )  # fmt: skip
    return spec


def _came_out(asked: Asked, title: str, needed_us: int) -> tuple[list[str], dict[str, Any]]:
    if asked.finished and (asked.watermark_us is None or asked.watermark_us < needed_us):
        end = asked.last
        when = f" in batch {end.batch_id} at {shown(end.clock_us)}" if end else ""
        return [f"{title} came out at the graceful end{when}."], {"state": "closed_by_end"}
    entry = next((each for each in asked.entries if each.watermark_us is not None and each.watermark_us >= needed_us),
                 None)  # fmt: skip
    if entry is None or entry is asked.entries[0]:
        return [f"{title} is closed. It closed before the oldest entry of the ledger, or with it."], {"state": "closed"}
    lines = [
        (
            f"{title} is closed: it came out in batch {entry.batch_id} at {shown(entry.clock_us)}, when the watermark "
            f"reached {shown(needed_us)}. That batch gave {counted(entry.results, 'result')}."
        )
    ]
    waiting = sum(entry.undelivered_results.values()) if asked.last is entry else sum(
        asked.last.undelivered_results.values() if asked.last else ())  # fmt: skip
    if waiting:
        lines.append(f"{counted(waiting, 'result')} wait in the checkpoint for a sink that is away.")
    if asked.plan.stages.of(ChainStage):
        lines.append("Its results are the input of another window, which closes later.")
    return lines, {"state": "closed", "batch_id": entry.batch_id, "closed_us": entry.clock_us}


def _is_open(asked: Asked, title: str, needed_us: int, holding: Holding) -> tuple[list[str], dict[str, Any]]:
    late = f" (its end, and allowed lateness of {span(asked.lateness_us)})" if asked.lateness_us else " (its end)"
    missing = f": it has {span(needed_us - holding.watermark_us)} to go" if holding.watermark_us is not None else ""
    lines = [
        f"{title} is open. It closes when the watermark reaches {shown(needed_us)}{late}{missing}.",
        *holding.describe(asked),
        *holding.releases(asked, needed_us),
    ]
    eta_us = holding.eta_us(asked, needed_us)
    if eta_us is not None:
        assert holding.rate is not None
        lines.append(
            f"At the present rate ({holding.rate:.2f} s of event time per second), it closes at {shown(eta_us)}, "
            f"in {span(max(0, eta_us - now_us()))}."
        )
    elif asked.running:
        lines.append("The watermark does not move at present, so no time can be given.")
    return lines, {"state": "open", "eta_us": eta_us}


def _late_rows(asked: Asked, start_us: int, end_us: int, facts: dict[str, Any]) -> list[str]:
    records = [each for each in read_side_records(asked) if each.in_window(start_us, end_us)]
    kinds: dict[str, int] = {}
    for each in records:
        kinds[each.kind] = kinds.get(each.kind, 0) + 1
    facts["side_rows"] = kinds
    shown_kinds = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    return [f"The side output has rows of this window: {shown_kinds}."] if kinds else []
