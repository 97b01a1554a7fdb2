"""When windows are closed, also where the allowed lateness has been changed since the state was made."""

from __future__ import annotations


def closing_us(watermark_us: int, lateness_us: int, closed_until_us: int | None) -> int:
    """Windows that end here or before are closed. Those that were closed under less lateness stay so."""
    bound_us = watermark_us - lateness_us
    return bound_us if closed_until_us is None else max(bound_us, closed_until_us)


def as_judged_now(watermark_us: int | None, then_us: int | None, lateness_us: int) -> int | None:
    """The watermark that closes with `lateness_us` what a stored one has closed with the lateness `then_us`.

    Windows that would be closed only by less lateness are still there, and have to be emitted.
    """
    return watermark_us if watermark_us is None or then_us is None else watermark_us - then_us + lateness_us
