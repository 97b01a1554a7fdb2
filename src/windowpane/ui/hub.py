"""Reads the checkpoint once for all open pages, and only while there are any."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from windowpane.ui.feed import Document, Feed, changes, restarted

EVERY_SECONDS = 1.0
REMOTE_SECONDS = 3.0
"""For checkpoints in object stores and the like, where each look is a few requests."""
_ALIVE_SECONDS = 15.0


class Hub:
    """Gives each page the whole document first, and then what changes."""

    def __init__(self, feed: Feed, every_seconds: float | None = None) -> None:
        self._feed = feed
        self._every = every_seconds or (REMOTE_SECONDS if feed.is_remote else EVERY_SECONDS)
        self._turn, self._starting, self._changed = asyncio.Lock(), asyncio.Lock(), asyncio.Condition()
        self._pages, self._task = 0, None  # type: int, asyncio.Task[None] | None
        self._current: Document | None = None
        self._closing = False

    async def read(self) -> Document:
        """The document of now."""
        async with self._turn:
            return await asyncio.to_thread(self._feed.read)

    async def close(self) -> None:
        """The server stops: all pages get the end of their stream."""
        self._closing = True
        async with self._changed:
            self._changed.notify_all()

    async def events(self) -> AsyncIterator[bytes]:
        """Server-sent events for one page."""
        self._pages += 1
        try:
            seen = await self._first()
            yield _event("whole", seen)
            while not self._closing:
                current = await self._next(seen)
                if current is seen:
                    yield b": alive\n\n"
                elif restarted(seen, current):
                    yield _event("whole", current)
                elif found := changes(seen, current):
                    yield _event("change", found)
                seen = current
        finally:
            self._pages -= 1

    async def _first(self) -> Document:
        async with self._starting:
            if self._task is None or self._task.done() or self._current is None:
                self._current = await self.read()
                self._task = asyncio.create_task(self._poll())
            return self._current

    async def _next(self, seen: Document) -> Document:
        """The next document; `seen` if there is none for a while."""
        async with self._changed:
            try:
                async with asyncio.timeout(_ALIVE_SECONDS):
                    await self._changed.wait_for(lambda: self._closing or self._current is not seen)
            except TimeoutError:
                return seen
            assert self._current is not None
            return self._current

    async def _poll(self) -> None:
        while self._pages and not self._closing:
            await asyncio.sleep(self._every)
            document = await self.read()
            async with self._changed:
                self._current = document
                self._changed.notify_all()


def _event(name: str, document: Document) -> bytes:
    return f"event: {name}\ndata: {json.dumps(document, separators=(',', ':'))}\n\n".encode()
