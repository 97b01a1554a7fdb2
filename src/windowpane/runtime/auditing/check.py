"""What an audit checks, and what it finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Status: TypeAlias = Literal["ok", "failed", "skipped"]
_MOST = 100
"""Findings of one check that a report has."""


@dataclass(frozen=True)
class Check:
    """One check of a transform. `findings` say what is wrong, and where; `detail` what was looked at, or why not."""

    name: str
    detail: str
    findings: list[str] = field(default_factory=list)
    skipped: bool = False

    @property
    def status(self) -> Status:
        if self.findings:
            return "failed"
        return "skipped" if self.skipped else "ok"

    def as_dict(self) -> dict[str, Any]:
        found = {"check": self.name, "status": self.status, "detail": self.detail, "findings": self.findings[:_MOST]}
        return found | ({"more_findings": len(self.findings) - _MOST} if len(self.findings) > _MOST else {})


def skipped(name: str, why: str) -> Check:
    return Check(name, why, skipped=True)
