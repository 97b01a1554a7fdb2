"""`windowpane test`: golden files, run or rewritten."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from windowpane.config import load_pipeline
from windowpane.errors import ConfigError, nearest
from windowpane.preview.recording import record
from windowpane.testing import golden
from windowpane.testing.golden import MODES, Mode, Verdict
from windowpane.testing.golden.comparison import Difference
from windowpane.testing.golden.model import Golden

DIFFERS, UNREADABLE = 1, 2
"""Exit codes: a file does not hold, a file cannot be read."""


def run_goldens(paths: Sequence[Path], mode: str, *, as_json: bool) -> tuple[str, int]:
    """The report on all files, and the exit code."""
    modes = _modes(mode)
    return _report([verdict for path in golden.find(paths) for verdict in _judge(path, modes)], as_json=as_json)


def run_goldens_on_spark(paths: Sequence[Path], mode: str, *, complete: bool, as_json: bool) -> tuple[str, int]:
    """The same on a local Spark, as written."""
    if mode != "as-written" or complete:
        option = "--complete" if complete else f"--mode {mode}"
        raise ConfigError("BAD_OPTION", f"{option} and --spark exclude each other", "leave one of them out")
    files = golden.find(paths)
    from windowpane.runtime.golden_spark import differences_on_spark, golden_session  # noqa: PLC0415

    with golden_session() as spark:
        verdicts = [_judge_with(path, lambda read: differences_on_spark(read, spark)) for path in files]
    return _report(verdicts, as_json=as_json)


def _report(verdicts: Sequence[Verdict], *, as_json: bool) -> tuple[str, int]:
    unreadable = any(verdict.unreadable for verdict in verdicts)
    code = UNREADABLE if unreadable else DIFFERS if not all(verdict.holds for verdict in verdicts) else 0
    return (_as_json(verdicts) if as_json else _as_text(verdicts)), code


def complete_goldens(paths: Sequence[Path], *, as_json: bool) -> str:
    """Rewrite the expectations of all files; which files have changed."""
    changed = [str(path) for path in golden.find(paths) if golden.complete(path)]
    if as_json:
        return json.dumps({"rewritten": changed}, indent=2, ensure_ascii=False)
    return "\n".join([*(f"rewrote {file}" for file in changed), f"{_number(len(changed), 'file')} rewritten"])


def record_golden(paths: Sequence[Path], pipeline: Path, transform: str | None, rows: int, *, as_json: bool) -> str:
    """Write a golden file with rows of a pipeline's streams; what was written."""
    if len(paths) != 1 or paths[0].suffix != golden.SUFFIX:
        message = "--record writes one file, whose name ends in .slt"
        raise ConfigError("BAD_OPTION", message, "write: windowpane test hot.slt --record pipeline.toml")
    count = record(load_pipeline(pipeline), transform, rows, paths[0])
    if as_json:
        return json.dumps({"written": str(paths[0]), "rows": count}, indent=2, ensure_ascii=False)
    return "\n".join([f"wrote {paths[0]} with {_number(count, 'row')}", f"next: review it, windowpane test {paths[0]}"])


def _modes(mode: str) -> tuple[Mode, ...]:
    if mode == "all":
        return MODES
    chosen = tuple(known for known in MODES if known == mode)
    if not chosen:
        raise ConfigError("BAD_OPTION", f"there is no mode `{mode}`", f"valid: {nearest(mode, [*MODES, 'all'])}")
    return chosen


def _judge(path: Path, modes: Sequence[Mode]) -> list[Verdict]:
    """A file that cannot be read is one verdict, so that the others are still run."""
    try:
        return golden.check(golden.read_golden(path), modes)
    except ConfigError as error:
        return [Verdict(str(path), modes[0], unreadable=error)]


def _judge_with(path: Path, differences: Callable[[Golden], Sequence[Difference]]) -> Verdict:
    try:
        return Verdict(str(path), "as-written", tuple(differences(golden.read_golden(path))))
    except ConfigError as error:
        return Verdict(str(path), "as-written", unreadable=error)


def _as_text(verdicts: Sequence[Verdict]) -> str:
    """Of each file the first mode that differs: the others mostly repeat it."""
    first: dict[str, Verdict] = {}
    for verdict in verdicts:
        if not verdict.holds:
            first.setdefault(verdict.file, verdict)
    blocks = [verdict.render() for verdict in first.values()]
    files = len({verdict.file for verdict in verdicts})
    broken = sum(verdict.unreadable is not None for verdict in first.values())
    parts = [f"{files - len(first)} passed", f"{len(first) - broken} failed" if len(first) > broken else ""]
    parts.append(f"{broken} unreadable" if broken else "")
    return "\n\n".join([*blocks, f"{_number(files, 'file')}: {', '.join(filter(None, parts))}"])


def _as_json(verdicts: Sequence[Verdict]) -> str:
    held = {verdict.file: True for verdict in verdicts}
    for verdict in verdicts:
        held[verdict.file] &= verdict.holds
    report = {
        "files": len(held),
        "holding": sum(held.values()),
        "runs": [verdict.as_dict() for verdict in verdicts],
    }
    return json.dumps(report, indent=2, ensure_ascii=False)


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
