"""The order in which the workers of `--dist loadfile` take the test files: the longest first, so that all end together.

`tests/seconds.json` holds how long each file took; `WINDOWPANE_SECONDS=1 make test-spark` measures it anew.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

SECONDS = Path(__file__).with_name("seconds.json")
UNKNOWN = 15.0
"""Seconds for a file that has not been measured."""
TOGETHER = ("tests/servers/",)
"""Folders whose files run one after the other in one worker, because they share servers that take long to start."""


def unit_of(nodeid: str) -> str:
    """The file of a test, or the folder if its files run together."""
    file = nodeid.partition("::")[0]
    return next((folder for folder in TOGETHER if file.startswith(folder)), file)


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Like `loadfile`, but by seconds instead of by number of tests."""

    _seconds = json.loads(SECONDS.read_text(encoding="utf-8"))

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        longest = max(self.workqueue, key=self._length)
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)

    def _length(self, unit: str) -> float:
        files = {nodeid.partition("::")[0] for nodeid in self.workqueue[unit]}
        return sum(float(self._seconds.get(file, UNKNOWN)) for file in files)


def write_seconds(reports: list[pytest.TestReport]) -> None:
    """Replace the seconds of the files that these reports are about."""
    took: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        took[report.nodeid.partition("::")[0]] += report.duration
    known = json.loads(SECONDS.read_text(encoding="utf-8")) if SECONDS.exists() else {}
    kept = {file: seconds for file, seconds in known.items() if Path(file).exists()}
    kept |= {file: round(seconds, 1) for file, seconds in took.items()}
    SECONDS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
