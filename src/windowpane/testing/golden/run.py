"""Runs the steps of a golden file: as written, every push cut into single rows, or with a restart after each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal as Choice
from typing import TypeAlias

from windowpane.errors import InternalError, WindowpaneError
from windowpane.testing.golden.model import Golden
from windowpane.testing.golden.model import Step as GoldenStep
from windowpane.testing.golden.rows import GoldenRow, to_inputs
from windowpane.testing.harness import Harness, Step
from windowpane.time import from_datetime

Mode: TypeAlias = Choice["as-written", "single-rows", "restarts"]
MODES: tuple[Mode, ...] = ("as-written", "single-rows", "restarts")


@dataclass
class Got:
    """What one step gave."""

    rows: list[dict[str, object]] = field(default_factory=list)
    side: list[dict[str, object]] = field(default_factory=list)
    watermark_us: int | None = None
    accounting: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    error: WindowpaneError | None = None

    def add(self, step: Step) -> None:
        """Take in one micro-batch more: what it counts is added, what it holds is the newest."""
        self.rows += step.rows
        self.side += step.side
        self.watermark_us = None if step.watermark is None else from_datetime(step.watermark)
        before, self.accounting = self.accounting, {}
        for stage, account in {"": step.accounting, **step.stages}.items():
            counted = account.named(stage)
            held = [name for name in counted if name.endswith("buffered")]
            self.accounting |= {name: number + before.get(name, 0) for name, number in counted.items()}
            self.accounting |= {name: counted[name] for name in held}


@dataclass
class Run:
    """What a file gave: the error that the query was refused with, or what each step gave."""

    refused: WindowpaneError | None = None
    steps: list[Got] = field(default_factory=list)


def run_golden(golden: Golden, modes: Sequence[Mode] = ("as-written",)) -> list[Run]:
    """Run a file to its end in each mode. Errors are part of what it gave, except those that are bugs of ours."""
    try:
        harness = _harness(golden)
    except InternalError:
        raise
    except WindowpaneError as error:
        return [Run(refused=error)] * len(modes)
    runners = [_Runner(golden, mode, harness.again()) for mode in modes]
    return [Run(steps=[runner.run(index) for index in range(len(golden.steps))]) for runner in runners]


def _harness(golden: Golden) -> Harness:
    return Harness(
        golden.sql,
        streams={name: declared.settings for name, declared in golden.streams.items()},
        options=golden.options,
        transform=golden.transform,
        tables=golden.tables,
        transforms=golden.transforms,
        watermark="manual" if golden.manual else "data",
        now=golden.now_us,
    )


class _Runner:
    def __init__(self, golden: Golden, mode: Mode, harness: Harness) -> None:
        self._golden, self._mode, self._harness = golden, mode, harness
        self._before = b""
        """The state before the step that a `replay` runs once more."""

    def run(self, index: int) -> Got:
        steps = self._golden.steps
        if steps[index].verb == "replay":
            self._harness = self._harness.again(self._before)
            return self._perform(steps[index - 1])
        if index + 1 < len(steps) and steps[index + 1].verb == "replay":
            self._before = self._harness.snapshot()
        got = self._perform(steps[index])
        if self._mode == "restarts" or steps[index].verb == "restart":
            self._harness = self._harness.again(self._harness.snapshot())
        return got

    def _perform(self, step: GoldenStep) -> Got:
        got = Got()
        try:
            self._act(step, got)
        except InternalError:
            raise
        except WindowpaneError as error:
            got.error = error
        got.counts = self._harness.counts
        return got

    def _act(self, step: GoldenStep, got: Got) -> None:
        match step.verb:
            case "push":
                for rows in self._batches(step.rows):
                    got.add(self._harness.push(self._inputs(step, rows), step.stream, step.shard, at=step.at_us))
            case "watermark":
                got.add(self._harness.advance_watermark(step.at_us or 0))
            case "clock":
                got.add(self._harness.advance_clock((step.at_us or 0) / 1_000_000))
            case "end":
                got.add(self._harness.end())
            case "change":
                self._harness.change(step.sql)

    def _batches(self, rows: Sequence[GoldenRow]) -> list[Sequence[GoldenRow]]:
        if self._mode == "single-rows" and self._golden.cuttable and rows:
            return [[row] for row in rows]
        return [rows]

    def _inputs(self, step: GoldenStep, rows: Sequence[GoldenRow]) -> list[dict[str, object]]:
        stream = step.stream or next(iter(self._golden.streams))
        return to_inputs(rows, self._golden.streams[stream].columns, self._golden.eventtime(stream))
