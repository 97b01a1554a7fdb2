"""The lease of a checkpoint: one process has it, keeps it by renewing it, and loses it if it does not.

Each holder creates an object whose name is a number, one more than that of the holder before: the fence. A store lets
one process create a name. The holder rewrites its object every few seconds. Others compare no clocks: they take over
once they have seen an object unchanged for its time. From then on, the higher fence keeps out the old holder.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from windowpane.checkpoint.store import Store
from windowpane.errors import StateError, WindowpaneError
from windowpane.process_identity import has_ended, is_same_system, own_machine, own_process

SECONDS = 15.0
"""How long an object must stay unchanged before another process takes the lease over."""
_BEATS = 5
"""How often it is renewed within that time."""
_POLL_SECONDS = 0.25
_log = logging.getLogger("windowpane.run")


@dataclass(frozen=True)
class Holding:
    """What the holder of a lease has written about itself."""

    fence: int
    text: bytes
    """The whole object. Each renewal changes it."""
    seconds: float = SECONDS
    released: bool = False
    machine: str = ""
    process: str = ""
    name: str = "another process"

    @classmethod
    def parsed(cls, fence: int, text: bytes) -> Holding:
        """A damaged object is one that its holder does not renew."""
        with contextlib.suppress(ValueError, TypeError, LookupError):
            found = json.loads(text)
            return cls(
                fence, text, float(found["seconds"]), bool(found["released"]), str(found["machine"]),
                str(found["process"]), str(found["name"]),
            )  # fmt: skip
        return cls(fence, text)

    def is_over(self) -> bool:
        """Whether nobody has the lease, for sure and at once."""
        return self.released or has_ended(self.machine, self.process)


@dataclass
class StoreLease:
    """A lease over any store, in the folder `name` of it. `seconds`: see SECONDS."""

    store: Store
    name: str
    seconds: float = SECONDS
    alone: bool = False
    """Something else keeps out other processes of this machine, so that a holder here has ended."""
    fence: int = 0
    """The number of this holder; 0 if it has never had the lease."""
    _beats: int = 0
    _holder: str = field(default_factory=lambda: uuid.uuid4().hex)
    _confirmed: float = 0.0
    """When it was certain last that the lease is held, by the clock of this process."""
    _held: bool = False
    _lost: bool = False
    _ending: threading.Event = field(default_factory=threading.Event)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def acquire(self) -> bool:
        latest = self._latest()
        if latest is not None and not self._may_follow(latest):
            return False
        number = latest.fence + 1 if latest is not None else 1
        asked = _now()
        if not self._objects.create(_name(number), self._text()):
            return False
        if self._objects.create(_name(number), self._text()):
            raise StateError(
                "STORE_UNCONDITIONAL",
                f"{self.store.address()} lets a name be created twice, so two processes could run on the checkpoint",
                "use a store that honours conditional writes (on S3: If-None-Match), or another version of its server",
            )
        self.fence, self._confirmed, self._held, self._lost = number, asked, True, False
        self._remove_before(number)
        self._ending = threading.Event()
        threading.Thread(target=self._renew, args=(self._ending,), name="windowpane-lease", daemon=True).start()
        return True

    def held(self) -> bool:
        """Whether anyone has the lease. Takes as long as a renewal if the holder is on another machine."""
        latest = self._latest()
        if latest is None or latest.is_over():
            return False
        return latest.machine == own_machine() or self._is_renewed(latest)

    def release(self) -> None:
        if not self._held:
            return
        self._held = False
        self._ending.set()
        with self._turn, contextlib.suppress(WindowpaneError):
            if not self._lost and self._is_latest():
                self._objects.replace(_name(self.fence), self._text(released=True))

    def check(self) -> None:
        """StateError `LEASE_LOST` unless this process certainly has the lease.

        Asks the store only if the last renewal is so old that another process may have taken over.
        """
        if not self._held and not self._lost:
            return
        asked = _now()
        if not self._lost and asked - self._confirmed < self.seconds / 2:
            return
        if self._lost or not self._is_latest():
            self._lost = True
            raise lease_lost(self.store.address())
        self._confirmed = max(self._confirmed, asked)

    @property
    def _objects(self) -> Store:
        return self.store.below(self.name)

    def _latest(self) -> Holding | None:
        for number in reversed(self._numbers()):
            text = self._objects.read(_name(number))
            if text is not None:
                return Holding.parsed(number, text)
        return None

    def _numbers(self) -> list[int]:
        return sorted(int(stem) for name in self._objects.names() if (stem := name.removesuffix(".json")).isdigit())

    def _is_latest(self) -> bool:
        """Whether nobody has taken over. The object of this holder may be gone, but no other may be newer."""
        numbers = self._numbers()
        return not numbers or numbers[-1] <= self.fence

    def _may_follow(self, latest: Holding) -> bool:
        """Waits until the holder has renewed its lease, or has not done so for too long."""
        if latest.is_over() or (self.alone and is_same_system(latest.machine)):
            return True
        told = "%s holds the checkpoint %s; waiting at most %g s to see whether it is still there"
        _log.warning(told, latest.name, self.store.address(), latest.seconds)
        return not self._is_renewed(latest)

    def _is_renewed(self, seen: Holding) -> bool:
        deadline = _now() + seen.seconds
        while True:
            now = self._latest()
            if now is None or now.is_over():
                return False
            if now.fence != seen.fence or now.text != seen.text:
                return True
            if _now() > deadline:
                return False
            time.sleep(min(_POLL_SECONDS, seen.seconds / _BEATS))

    def _renew(self, ending: threading.Event) -> None:
        while not ending.wait(self.seconds / _BEATS):
            with self._turn:
                if ending.is_set():
                    return
                asked = _now()
                with contextlib.suppress(WindowpaneError):  # the next turn tries again, as long as the lease lasts
                    if not self._is_latest():
                        self._lost = True
                        return
                    self._objects.replace(_name(self.fence), self._text(), durable=False)
                    self._confirmed = asked

    def _remove_before(self, number: int) -> None:
        for earlier in self._numbers():
            if earlier < number:
                self._objects.delete(_name(earlier), durable=False)

    def _text(self, *, released: bool = False) -> bytes:
        self._beats += 1
        about: Mapping[str, object] = {
            "format": 1, "holder": self._holder, "beat": self._beats, "released": released, "seconds": self.seconds,
            "machine": own_machine(), "process": own_process(),
            "name": f"process {os.getpid()} on {socket.gethostname()}",
        }  # fmt: skip
        return json.dumps(about).encode()


def lease_lost(address: str) -> StateError:
    return StateError(
        "LEASE_LOST",
        f"another process has taken over the checkpoint {address}, because this one was not heard of for too long",
        "this process has stopped and has written nothing since; the other one carries on",
    )


def _name(number: int) -> str:
    return f"{number:012}.json"


def _now() -> float:
    """A clock that also runs while the machine sleeps, where the system has one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
