"""One loader for cases restated from other systems' test suites: SQL is made from the case and run in the harness."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windowpane.testing import Harness, Step
from windowpane.time import from_datetime

CASES = Path(__file__).resolve().parents[2].parent / "shared" / "cases"

Row = dict[str, Any]
Case = dict[str, Any]

_AGGREGATE = re.compile(
    r"(?P<name>\w+)\((?P<distinct>DISTINCT\s+)?(?P<arg>.*?)\)"
    r"(?:\s+FILTER\s*\(WHERE (?P<filter>.*)\))?\s+AS\s+(?P<alias>\w+)",
    re.IGNORECASE,
)
"""`sum(CAST(x AS BIGINT)) FILTER (WHERE y > 1) AS s`; the argument may contain calls."""
_FUNCTIONS = {"collect": "collect_list"}
_WORD = re.compile(r"'[^']*'|\b[A-Za-z_]\w*\b(?!\s*\()")
"""Texts, and words that are no names of functions."""


def load_cases() -> list[Case]:
    """Every case there is; none when the folder is not there."""
    return [case for path in sorted(CASES.glob("*.json")) for case in json.loads(path.read_text(encoding="utf-8"))]


@dataclass
class Outcome:
    """What a run gave: final rows as the case writes them, and the late rows' original events."""

    rows: list[Row] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def add(self, step: Step) -> None:
        self.steps.append(step)
        self.rows += [_as_case_row(row) for row in step.rows]
        self.late += [record["original_event"] for record in step.side if record["kind"] == "late"]  # type: ignore[misc]


def _as_case_row(row: Row) -> Row:
    """Times as milliseconds, the trigger under the cases' name."""
    renamed = {("trigger_ts" if name == "trigger_time" else name): value for name, value in row.items()}
    return {name: _as_milliseconds(value) for name, value in renamed.items()}


def _as_milliseconds(value: Any) -> Any:
    return from_datetime(value) // 1000 if hasattr(value, "tzinfo") else value


class CaseQuery:
    """The SQL, streams and settings that say what a case says."""

    def __init__(self, case: Case) -> None:
        self.case, self.window, self.time = case, case["window"], case["time"]
        self.rows = [item for item in case["input"] if "watermark" not in item]
        self.group_by: list[str] = case.get("group_by") or []
        named = [match["arg"] for text in case.get("aggs") or [] if (match := _AGGREGATE.fullmatch(text.strip()))]
        self.columns = _column_types(self.rows, [*self.group_by, *(name for name in named if name.isidentifier())])
        self.streams: list[str] = (self.time.get("streams") or {}).get("names") or ["s"]

    @property
    def by_clock(self) -> bool:
        """Processing time, driven by the harness's clock."""
        return bool(self.time["mode"] == "processing")

    def sql(self) -> str:
        parts = [f"SELECT {', '.join(self._selected())} FROM {self._relation()}"]
        if self.case.get("filter"):
            parts.append(f"WHERE {self._quoted(self.case['filter'])}")
        if self.window["kind"] != "watermark":
            function, clause = self._window()
            keys = ", ".join(filter(None, [function, *(f"`{name}`" for name in self.group_by)]))
            parts.append(f"GROUP BY {keys}" if keys else "")
            parts.append(f"HAVING {self._quoted(self.case['having'])}" if self.case.get("having") else "")
            parts.append(clause)
            parts.append(self._quoted(self.case.get("post") or ""))
        return " ".join(part for part in parts if part)

    def _relation(self) -> str:
        if len(self.streams) == 1:
            return self.streams[0]
        return f"({' UNION ALL '.join(f'SELECT * FROM {name}' for name in self.streams)}) u"

    def _selected(self) -> list[str]:
        if self.window["kind"] == "watermark":
            return [f"`{name}`" for name in self.columns]
        aggregates = [self._aggregate(text) for text in self.case.get("aggs") or []]
        pseudo = ["window_start", "window_end"]
        pseudo += ["trigger_time"] if self.window["kind"] == "sliding" else []
        rows = [f"`{name}`" for name in self.columns] if not aggregates and not self.group_by else []
        return [*(f"`{name}`" for name in self.group_by), *aggregates, *rows, *pseudo]

    def _aggregate(self, text: str) -> str:
        match = _AGGREGATE.fullmatch(text.strip())
        assert match, f"cannot read the aggregate {text!r}"
        name = _FUNCTIONS.get(match["name"].lower(), match["name"])
        condition = f" FILTER (WHERE {self._quoted(match['filter'])})" if match["filter"] else ""
        return f"{name}({match['distinct'] or ''}{self._quoted(match['arg'])}){condition} AS `{match['alias']}`"

    def _quoted(self, text: str) -> str:
        """Column names in backticks: cases call columns `int` and `double`."""
        return _WORD.sub(lambda word: f"`{word[0]}`" if word[0] in self.columns else word[0], text)

    def _window(self) -> tuple[str, str]:
        """The window as a function in GROUP BY, or as a clause where it has an offset."""
        kind, window = self.window["kind"], self.window
        if window.get("offset_ms"):
            slide = f", SLIDE '{window['slide_ms']}ms'" if kind == "hopping" else ""
            return "", f"WINDOW {kind} (SIZE '{window['size_ms']}ms'{slide}, OFFSET '{window['offset_ms']}ms')"
        arguments = {
            "tumbling": ["size_ms"], "hopping": ["size_ms", "slide_ms"], "session": ["gap_ms"],
            "sliding": ["lookback_ms", "lookahead_ms"],
        }.get(kind)  # fmt: skip
        if arguments:
            numbers = [str(window[name]) for name in arguments if window.get(name) is not None]
            return f"{kind}window('ms', {', '.join(numbers)}){self._over()}", ""
        if kind == "count":
            step = f", {window['step']}" if window.get("step") else ""
            return f"countwindow({window['count']}{step}){self._over()}", ""
        conditions = [window["single"]] if window.get("single") else [window["open"], window["emit"]]
        return f"statewindow({', '.join(self._quoted(text) for text in conditions)}){self._over()}", ""

    def _over(self) -> str:
        partition = self.window.get("partition_by") or []
        if self.window.get("partition_by_group") or self.window.get("scope") == "per_key":
            partition = self.group_by
        inside = [f"PARTITION BY {', '.join(f'`{name}`' for name in partition)}"] if partition else []
        inside += [f"WHEN {self._quoted(self.case['trigger_when'])}"] if self.case.get("trigger_when") else []
        return f" OVER ({' '.join(inside)})" if inside else ""

    def harness_arguments(self) -> dict[str, Any]:
        schema = ", ".join(f"`{name}` {kind}" for name, kind in self.columns.items())
        stream: dict[str, Any] = {"schema": schema}
        if not self.by_clock:
            stream["eventtime"] = {"column": "ts", "type": "unixtimestamp_ms", "strict": True}
        arguments: dict[str, Any] = {"streams": dict.fromkeys(self.streams, stream)}
        arguments["options"] = self._options()
        arguments["watermark"] = "data" if self.time["watermarks"] == "per_row" else "manual"
        if not self.by_clock and self.time.get("allowed_lateness_ms") and not self._ordered:
            arguments["transform"] = {"allowed_lateness": f"{self.time['allowed_lateness_ms']}ms"}
        if self.by_clock:
            arguments["now"] = self.rows[0].get("ts", 0) * 1000 if self.rows else 0
        return arguments

    @property
    def _ordered(self) -> bool:
        """Rows released in order have no lateness apart from the lag."""
        return self.window["kind"] in ("sliding", "count", "state", "watermark")

    def _options(self) -> Row:
        if self.by_clock:
            return {}
        lag = self.time.get("late_tolerance_ms") or 0
        options: Row = {"eventtime.enabled": True, "eventtime.late_tolerance": f"{lag}ms", "max_future_skew": "off"}
        return options | ({"late_rule": self.case["late_rule"]} if self.case.get("late_rule") else {})


def _column_types(rows: list[Row], also: list[str]) -> dict[str, str]:
    """Column names, `ts` first, with the type that holds all their values."""
    names = dict.fromkeys(["ts", *(name for row in rows for name in row), *also])
    kinds = {}
    for name in names:
        values = [row[name] for row in rows if row.get(name) is not None]
        kinds[name] = _type_of(values)
    return kinds


def _type_of(values: list[Any]) -> str:
    """The type that holds all values."""
    lists = [value for value in values if isinstance(value, list)]
    if lists:
        return f"ARRAY<{_type_of([each for value in lists for each in value if each is not None])}>"
    return next((sql for kind, sql in _TYPES if any(type(value) is kind for value in values)), "BIGINT")


_TYPES = [(str, "STRING"), (float, "DOUBLE"), (int, "BIGINT"), (bool, "BOOLEAN")]


def batches(case: Case) -> Iterator[Row | list[Row]]:
    """The case's input as steps: a list of rows is one micro-batch, a dict is a watermark."""
    per_row = case["time"]["watermarks"] == "per_row"
    pending: list[Row] = []
    for item in case["input"]:
        if "watermark" in item or per_row or (pending and pending[-1].get("ts") != item.get("ts")):
            if pending:
                yield pending
            pending = []
        if "watermark" in item:
            yield item
        else:
            pending.append(item)
    if pending:
        yield pending


def run_case(case: Case, harness: Harness | None = None) -> Outcome:
    """Run a case to its end, whatever drives its time; in `harness`, where one is made for it."""
    query, outcome = CaseQuery(case), Outcome()
    harness = harness or Harness(query.sql(), **query.harness_arguments())
    for item in batches(case):
        if isinstance(item, dict):
            _advance(harness, query, item["watermark"], outcome)
            continue
        at = max(item[0]["ts"] * 1000, from_datetime(harness.clock)) if query.by_clock and "ts" in item[0] else None
        stream = item[0][query.time["streams"]["column"]] if len(query.streams) > 1 else None
        outcome.add(harness.push(item, stream=stream, at=at))
    if case["time"]["end"] == "flush":
        outcome.add(harness.end())
    elif case["time"]["watermarks"] == "none" and not query.by_clock:
        outcome.add(harness.advance_watermark(max(row["ts"] for row in query.rows) * 1000))
    return outcome


def _advance(harness: Harness, query: CaseQuery, to_ms: int, outcome: Outcome) -> None:
    if not query.by_clock:
        outcome.add(harness.advance_watermark(to_ms * 1000))
        return
    seconds = to_ms / 1000 - from_datetime(harness.clock) / 1_000_000
    if seconds > 0:
        outcome.add(harness.advance_clock(seconds))


def differences(case: Case, outcome: Outcome) -> list[str]:
    """What is missing and what is too much, as lines to read; none when the case holds."""
    keys = case["compare_keys"]
    sets = {
        match["alias"]
        for text in case.get("aggs") or []
        if (match := _AGGREGATE.fullmatch(text.strip())) and match["name"].lower() == "collect_set"
    }
    found = [_comparable(row, keys, sets) for row in outcome.rows]
    wanted = [_comparable(row, [key for key in keys if key in row], sets) for row in case["expected"]]
    lines = _missing(wanted, found, "missing row")
    lines += [] if case.get("expected_is_subset") else [f"unexpected row {row}" for row in found]
    late = [dict(row) for row in outcome.late]
    lines += _missing([dict(row) for row in case["expected_late"]], late, "missing late row")
    return lines + [f"unexpected late row {row}" for row in late]


def _comparable(row: Row, keys: list[str], sets: set[str]) -> Row:
    picked = {key: row.get(key) for key in keys}
    return {key: sorted(value or [], key=repr) if key in sets else value for key, value in picked.items()}


def _missing(wanted: list[Row], found: list[Row], what: str) -> list[str]:
    """Take each wanted row out of `found`; what is not there is a line."""
    lines = []
    for row in wanted:
        match = next((other for other in found if _same(row, {key: other.get(key) for key in row})), None)
        if match is None:
            lines.append(f"{what} {row}")
        else:
            found.remove(match)
    return lines


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) or isinstance(right, float):
        if left is None or right is None:
            return left is right
        return math.isclose(left, right, rel_tol=1e-9) or (math.isnan(left) and math.isnan(right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(_same(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right)
