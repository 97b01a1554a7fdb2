"""The report of an audit, as values and as a page that can be handed on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from html import escape
from typing import Any

from windowpane import __version__
from windowpane.checkpoint.ledger_chain import ChainCheck
from windowpane.runtime.asking.asked import Asked, now_us, shown
from windowpane.runtime.auditing.check import Check
from windowpane.runtime.inspection import final_totals


@dataclass(frozen=True)
class Audited:
    """The audit of one transform."""

    asked: Asked
    checks: list[Check]
    chain: ChainCheck

    @property
    def passed(self) -> bool:
        return not any(check.findings for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        record, entries = self.asked.checkpoint.record(), self.asked.entries
        return {
            "transform": self.asked.name, "passed": self.passed, "state": self.asked.state(),
            "checkpoint": self.asked.checkpoint.address, "plan_id": record.plan_id, "sql": record.sql,
            "batches": {"first": entries[0].batch_id, "last": entries[-1].batch_id} if entries else None,
            "totals": final_totals(entries[-1], self.asked.checkpoint) if entries else {},
            "chain": {"first": self.chain.first, "last": self.chain.last, "head": self.chain.head},
            "checks": [check.as_dict() for check in self.checks],
        }  # fmt: skip


@dataclass(frozen=True)
class Report:
    """The audits of a pipeline's transforms."""

    audits: list[Audited]
    made_us: int = field(default_factory=now_us)

    @property
    def passed(self) -> bool:
        return all(audit.passed for audit in self.audits)

    def as_dict(self) -> dict[str, Any]:
        """`digest` is that of all the rest: whoever notes it can tell whether the report was changed."""
        content = {
            "windowpane": __version__, "made_us": self.made_us, "passed": self.passed,
            "transforms": [audit.as_dict() for audit in self.audits],
        }  # fmt: skip
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
        return content | {"digest": hashlib.sha256(text.encode()).hexdigest()}

    def as_html(self) -> str:
        """One page, without anything from elsewhere."""
        content = self.as_dict()
        verdict = "passed" if self.passed else "FAILED"
        body = [
            f"<h1>windowpane audit: {verdict}</h1>",
            (
                f"<p>Made at {shown(self.made_us)} UTC by windowpane {escape(__version__)}. Digest of this report: "
                f"<code>{content['digest']}</code></p>"
            ),
            *(_section(each) for each in content["transforms"]),
        ]
        return _PAGE.format(verdict=verdict, body="\n".join(body))


def _section(audit: dict[str, Any]) -> str:
    totals = ", ".join(f"{count:,} {name}" for name, count in audit["totals"].items() if count)
    chain = audit["chain"]
    rows = "\n".join(_row(check) for check in audit["checks"])
    return f"""<h2>{escape(audit["transform"])}: {"passed" if audit["passed"] else "FAILED"}</h2>
<p>Checkpoint <code>{escape(audit["checkpoint"])}</code>, {audit["state"]}. Plan <code>{audit["plan_id"]}</code>.</p>
<pre>{escape(audit["sql"])}</pre>
<p>Rows: {escape(totals) or "none"}.</p>
<p>Head of the hash chain (batch {chain["last"]}): <code>{chain["head"]}</code></p>
<table><tr><th>check</th><th>result</th><th>what was looked at</th></tr>
{rows}
</table>"""


def _row(check: dict[str, Any]) -> str:
    findings = "".join(f"<li>{escape(each)}</li>" for each in check["findings"])
    more = f"<li>… and {check['more_findings']:,} more</li>" if "more_findings" in check else ""
    told = f"{escape(check['detail'])}{f'<ul>{findings}{more}</ul>' if findings else ''}"
    return (
        f'<tr class="{check["status"]}"><td>{escape(check["check"])}</td><td>{check["status"]}</td><td>{told}</td></tr>'
    )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>windowpane audit: {verdict}</title>
<style>
body {{ font-family: sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; background: #fff }}
code, pre {{ font-size: 0.9em; overflow-wrap: anywhere; white-space: pre-wrap }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ border: 1px solid #ccc; padding: 0.4em 0.6em; text-align: left; vertical-align: top }}
.ok td:nth-child(2) {{ color: #070 }} .failed td {{ background: #fdd }} .skipped td {{ color: #777 }}
</style></head><body>
{body}
</body></html>
"""
