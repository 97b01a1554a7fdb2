"""The rules of time zones that a checkpoint's windows were made with. Countries change them, and so do later starts."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from windowpane.plan.build import Plan
from windowpane.time_zones import DATABASE

_log = logging.getLogger("windowpane.run")


def zones_of(plan: Plan) -> dict[str, str]:
    """By zone, a digest of its rules and the database that they are from."""
    specs = [stage.window.spec for stage in plan.stages.windows if stage.window is not None]
    rules = {name: digest for spec in specs for name, digest in spec.zone_rules().items()}
    return {name: f"{digest} {DATABASE}" for name, digest in sorted(rules.items())}


def warn_of_changed_rules(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Say which zones have other rules than those that open windows began with."""
    for name in before.keys() & now.keys():
        (old, old_database), (new, database) = (each[name].split(" ", 1) for each in (before, now))
        if old != new:
            _log.warning(
                "the rules of the time zone %s have changed from %s to %s: windows follow the new ones from now on",
                name,
                old_database,
                database,
            )
