"""The steady part of a run: from the end of its first micro-batch to the end of its last."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

from bench.nexmark.watching import Watch, steady


def entry(rows: int) -> Any:
    return SimpleNamespace(accounting={"in_": rows}, open_windows=0)


def active() -> Any:
    return SimpleNamespace(transforms=[SimpleNamespace(query=SimpleNamespace(isActive=True))])


def test_the_first_batch_does_not_count_and_pauses_do() -> None:
    assert steady([(10.0, 5), (12.0, 7), (20.0, 8)]) == {"rows": 15, "seconds": 10.0, "batches": 3}
    assert steady([(10.0, 5)]) == {"rows": 0, "seconds": 0.0, "batches": 1}


def test_a_batch_without_rows_after_the_last_ones_is_waited_for() -> None:
    watch = Watch()
    waiting = threading.Thread(target=watch.until, args=(10, active()), kwargs={"and_batches": 1}, daemon=True)
    watch.hear("t", entry(0))
    watch.hear("t", entry(10))
    waiting.start()
    time.sleep(0.1)
    assert waiting.is_alive()
    watch.hear("t", entry(0))
    waiting.join(5)
    assert not waiting.is_alive()
