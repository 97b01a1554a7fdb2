"""Identifies a process beyond its number, so that another process of the same machine can tell whether it lives."""

from __future__ import annotations

import os
import socket
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def own_machine() -> str:
    """This machine since it was started, or this container if it has process numbers of its own."""
    try:
        return f"{_BOOT.read_text(encoding='ascii').strip()}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # not Linux
        return f"host {socket.gethostname()}"


def is_same_system(machine: str) -> bool:
    """Whether a machine runs on the same operating system as this one: a container of the same host does."""
    return machine.partition("/")[0] == own_machine().partition("/")[0]


def own_process() -> str:
    return f"{os.getpid()}/{_started(os.getpid())}"


def has_ended(machine: str, process: str) -> bool:
    """Whether a process has certainly ended. False if it may live: on another machine, or where nothing tells."""
    number, _, started = process.partition("/")
    if machine != own_machine() or not number.isdigit() or not _BOOT.exists():
        return False
    return _started(int(number)) != started


def _started(number: int) -> str:
    """When the system has started a process, in its ticks; empty if there is none. Zombies have ended."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
