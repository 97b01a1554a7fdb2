"""`windowpane audit`: the report as text, JSON or a page."""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from windowpane.cli.figures import output_width, proof
from windowpane.errors import ConfigError
from windowpane.runtime.asking.asked import asked_transforms
from windowpane.runtime.auditing.auditing import audit
from windowpane.runtime.auditing.check import Check
from windowpane.runtime.auditing.report import Audited, Report
from windowpane.runtime.status import named

_MARKS = {"ok": "ok", "failed": "FAILED", "skipped": "not checked"}
_SHOWN = 10
"""Findings of a check that the text has; `--json` and `--html` have more."""


@dataclass(frozen=True)
class AuditOptions:
    """What the command line asks for."""

    transform: str | None = None
    recompute: int = 0
    html: Path | None = None
    checkpoint: str | None = None


def answer(path: Path | None, options: AuditOptions, *, as_json: bool) -> tuple[str, bool]:
    """The text to print, and whether nothing was found."""
    transforms = list(asked_transforms(path, options.transform, options.checkpoint))
    report = Report([audit(asked, options.recompute, _say) for asked in transforms])
    if options.html is not None:
        try:
            options.html.write_text(report.as_html(), encoding="utf-8")
        except OSError as failed:
            raise ConfigError("REPORT_FILE", f"{options.html} cannot be written: {failed.strerror}") from failed
    if as_json:
        return json.dumps(report.as_dict(), indent=2, ensure_ascii=False, default=str), report.passed
    return "\n\n".join(map(_text, report.audits)), report.passed


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _text(audited: Audited) -> str:
    last = audited.asked.last
    lines = [f"{audited.asked.name}: {'passed' if audited.passed else 'FAILED'}"]
    if last is not None:
        lines.append(_filled(f"{proof(named(last.totals))}"))
    if audited.chain.head is not None:
        lines.append(f"  head of the chain, batch {audited.chain.last}: {audited.chain.head}")
    return "\n".join([*lines, *(line for check in audited.checks for line in _check(check))])


def _check(check: Check) -> list[str]:
    lines = [_filled(f"{check.name}: {_MARKS[check.status]}; {check.detail}")]
    lines += [_filled(f"- {finding}", "    ") for finding in check.findings[:_SHOWN]]
    if len(check.findings) > _SHOWN:
        lines.append(f"    … and {len(check.findings) - _SHOWN:,} more")
    return lines


def _filled(text: str, indent: str = "  ") -> str:
    return textwrap.fill(
        text, min(output_width(), 80), initial_indent=indent, subsequent_indent=f"{indent}  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
