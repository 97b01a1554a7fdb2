"""Warnings of a running transform, each logged once: rows that use processing time, dropped side rows."""

from __future__ import annotations

import logging

from windowpane.checkpoint.ledger import Entry
from windowpane.plan.build import Plan

_log = logging.getLogger("windowpane.run")


class Notices:
    """Checks every micro-batch of one transform."""

    def __init__(self, plan: Plan) -> None:
        self._name, self._event_time = plan.transform, plan.timing.mode == "event_time"
        self._said: set[str] = set()

    def hear(self, entry: Entry) -> None:
        fallen = entry.times.get("processing_time", 0)
        if self._event_time and fallen:
            self._say(
                "processing_time",
                f"{fallen:,} of {entry.accounting['in_']:,} rows in batch {entry.batch_id} have no readable event time "
                "and use processing time; with eventtime.strict = true they become error rows",
            )
        for kind, count in entry.dropped.items():
            self._say(
                f"dropped {kind}",
                f"side_output.{kind} is over its limit: {count:,} of {entry.side[kind]:,} records of batch "
                f"{entry.batch_id} were dropped, and are counted",
            )

    def _say(self, what: str, text: str) -> None:
        if what not in self._said:
            self._said.add(what)
            _log.warning("transform `%s`: %s", self._name, text)


def warn_of_no_ticks(plan: Plan) -> None:
    """A setting needs the clock, but the checkpoint was created by a query without ticks."""
    _log.warning(
        "transform `%s`: its checkpoint was created by a query that did not depend on the clock, so that %s takes "
        "effect only when rows arrive; start on an empty checkpoint folder to change this",
        plan.transform,
        ", ".join(plan.ticks_for),
    )
