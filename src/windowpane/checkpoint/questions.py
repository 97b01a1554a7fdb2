"""Asks the process that runs a pipeline for something, and waits for its answer. It answers between micro-batches."""

from __future__ import annotations

import time
from typing import Any

from windowpane.checkpoint.control import Question, Requests
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.store import Store
from windowpane.errors import StateError
from windowpane.remote.objects import scheme_of

_POLL_SECONDS, _REMOTE_SECONDS = 0.1, 1.0
"""How often to look for the answer: in a folder, and where each look is a request."""
_LOOK_SECONDS = 2.0
"""How often to look whether the pipeline still runs."""


def answered(store: Store, lock: RunLock, asked: Question, deadline: float) -> dict[str, Any] | None:
    """The answer of the running pipeline; None if the pipeline has ended before it has answered.

    StateError if the answer is an error, and `NO_ANSWER` if there is none until `deadline`, a time of the monotonic
    clock.
    """
    requests, is_sent, looked = Requests(store), False, time.monotonic()
    pause = _REMOTE_SECONDS if scheme_of(store.address()) else _POLL_SECONDS
    try:
        while time.monotonic() <= deadline:
            is_sent = is_sent or requests.put_question(asked)
            answer = requests.answered(asked)
            if answer is not None:
                _check(answer.get("error"))
                return answer
            if time.monotonic() > looked + _LOOK_SECONDS:
                if not lock.held():
                    return None
                looked = time.monotonic()
            time.sleep(pause)
    finally:
        requests.withdraw(asked)
    raise StateError("NO_ANSWER", f"the pipeline on {store.address()} has not answered in time")


def _check(error: object) -> None:
    if isinstance(error, dict):
        hint = error.get("hint")
        raise StateError(str(error.get("code")), str(error.get("message")), str(hint) if hint else None)
