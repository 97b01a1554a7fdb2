"""Requests from another process: a small file in the checkpoint that the running pipeline looks for, and answers."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from windowpane.checkpoint.records import encoded, read_object
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.status import StatusFile
from windowpane.checkpoint.store import UNAVAILABLE, Store
from windowpane.errors import StateError

Request: TypeAlias = Literal["drain", "stop"]
REQUEST_FILE = "control.json"
_ANSWERS = "answers"
_POLL_SECONDS = 0.1
_ENDING = ("drain", "stop")
_SAVEPOINT = "savepoint"
SideRowsCommand: TypeAlias = Literal["repair", "replay"]
_SIDE_ROWS: tuple[SideRowsCommand, ...] = ("repair", "replay")


@dataclass(frozen=True)
class SavepointRequest:
    """Asks for a savepoint, and for an answer under this id."""

    name: str
    id: str

    def content(self) -> dict[str, Any]:
        return {"request": _SAVEPOINT, "name": self.name}


@dataclass(frozen=True)
class SideRowsRequest:
    """Asks for side rows to be repaired or replayed, and for an answer under this id."""

    command: SideRowsCommand
    transform: str
    sink: str
    """The side output from which rows are taken."""
    where: str | None
    stream: str | None
    id: str

    def content(self) -> dict[str, Any]:
        named = {"transform": self.transform, "sink": self.sink, "where": self.where, "stream": self.stream}
        return {"request": self.command, **named}


Question: TypeAlias = SavepointRequest | SideRowsRequest
"""A request that the running pipeline answers."""


class Requests:
    """The requests to one pipeline."""

    def __init__(self, store: Store, every_seconds: float = 0.0) -> None:
        """`every_seconds`: how often `take` looks at most, where each look is a request that costs money or time."""
        self._store, self._every, self._looked = store, every_seconds, 0.0

    def forget(self) -> None:
        """Drop a request to the previous run.

        To be called as soon as the lock is held: from then on, requests are meant for this run, even while it starts.
        """
        self._store.delete(REQUEST_FILE)
        answers = self._store.below(_ANSWERS)
        for name in answers.names():
            answers.delete(name)

    def put(self, request: Request) -> None:
        """Ask the running pipeline."""
        self._store.replace(REQUEST_FILE, encoded({"request": request, "pid": os.getpid()}, indent=None))

    def put_question(self, asked: Question) -> bool:
        """Ask for an answer; False if another request is there that the pipeline has not seen yet."""
        content = asked.content() | {"id": asked.id, "pid": os.getpid()}
        return self._store.create(REQUEST_FILE, encoded(content, indent=None))

    def withdraw(self, asked: Question) -> None:
        """Nobody waits for the answer any more."""
        content = read_object(self._store, REQUEST_FILE, {})
        if content is not None and content.get("id") == asked.id:
            self._store.delete(REQUEST_FILE)
        self._store.delete(_answer(asked))

    def answer(
        self, asked: Question, error: dict[str, Any] | None = None, result: dict[str, Any] | None = None
    ) -> None:
        """Say that it is done, or why not. `result`: what it came to."""
        content = {"error": error} | ({} if result is None else {"result": result})
        self._store.replace(_answer(asked), encoded(content), durable=False)

    def answered(self, asked: Question) -> dict[str, Any] | None:
        """The answer; None as long as there is none."""
        return read_object(self._store, _answer(asked), {})

    def asks_to_end(self) -> bool:
        """Whether a request to end has arrived. It stays for `take`."""
        try:
            content = read_object(self._store, REQUEST_FILE, {})
        except StateError:
            return False
        return content is not None and content.get("request") in _ENDING

    def take(self) -> Request | Question | None:
        """The request that has arrived, once."""
        if time.monotonic() < self._looked + self._every:
            return None
        self._looked = time.monotonic()
        try:
            content = read_object(self._store, REQUEST_FILE, {"request": str})
        except StateError as broken:
            if broken.code == UNAVAILABLE:
                return None
            content = {}
        if content is None:
            return None
        self._store.delete(REQUEST_FILE)
        asked = content.get("request")
        if asked == _SAVEPOINT:
            return SavepointRequest(str(content.get("name")), str(content.get("id")))
        if asked in _SIDE_ROWS:
            named = {name: str(content.get(name)) for name in ("transform", "sink", "id")}
            return SideRowsRequest(asked, where=content.get("where"), stream=content.get("stream"), **named)
        return asked if asked in _ENDING else None


def ask(store: Store, request: Request, timeout: float) -> str:
    """Ask the pipeline that runs on `store` to end, wait until it has, and return the state it ended in."""
    lock, requests = RunLock(store), Requests(store)
    if not lock.held():
        raise StateError(
            "NOT_RUNNING",
            f"nothing runs on the checkpoint {store.address()}",
            "windowpane status says what was there last",
        )
    requests.put(request)
    deadline = time.monotonic() + timeout
    while lock.held():
        if time.monotonic() > deadline:
            raise StateError(
                "NO_ANSWER",
                f"the pipeline on {store.address()} has not ended within {timeout:g} s; the request remains in force",
                "wait longer with --timeout, or look at it with windowpane status",
            )
        time.sleep(_POLL_SECONDS)
    requests.forget()
    return str((StatusFile(store).read() or {}).get("state", "stopped"))


def _answer(asked: Question) -> str:
    return f"{_ANSWERS}/{asked.id}.json"


def new_id() -> str:
    """Under which a question is answered."""
    return uuid.uuid4().hex
