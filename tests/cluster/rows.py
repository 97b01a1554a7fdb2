"""The input of the pipelines, and the judgement of their output."""

from __future__ import annotations

from pathlib import Path

from bench.torture import account, compare, output, unfinished

FILES, SEED = 6, 5


def differences(calm: Path, job: Path) -> list[str]:
    """From an undisturbed run of the same rows, rows that are missing or there too often, and what is left over."""
    return [*compare(output(calm), output(job)), *account(job), *unfinished(job)]
