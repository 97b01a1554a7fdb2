"""Sinks that go away and come back while a pipeline is killed: a file stands in the place of their folder."""

from __future__ import annotations

import contextlib
import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path

SINKS = ("results", "every")
_RETRY = 'retry = { attempts = 2, pause = "50ms" }'


def without_patience(toml: str) -> str:
    """The pipeline with sinks that soon count as away."""
    for sink in SINKS:
        toml = toml.replace(f'path = "{sink}"', f'path = "{sink}"\n{_RETRY}')
    return toml


@contextlib.contextmanager
def going_away(folder: Path, rng: random.Random, seconds: float) -> Iterator[None]:
    """Each sink is away for up to `seconds`, again and again, once the pipeline has begun.

    The folder is a link, which is replaced at once by a link to a file and back: there is no moment between.
    """
    done = threading.Event()
    folder.joinpath("in-the-way").write_text("no folder", encoding="utf-8")
    for sink in SINKS:
        folder.joinpath(f"{sink}.there").mkdir(exist_ok=True)
        _point(folder / sink, f"{sink}.there")

    def come_and_go(sink: str, pauses: random.Random) -> None:
        while not done.wait(0.1):
            if _is_under_way(folder):
                _point(folder / sink, "in-the-way")
                done.wait(pauses.uniform(0, seconds))
                _point(folder / sink, f"{sink}.there")
                done.wait(pauses.uniform(0, seconds / 2))

    threads = [threading.Thread(target=come_and_go, args=(sink, random.Random(rng.random()))) for sink in SINKS]  # noqa: S311
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def _is_under_way(folder: Path) -> bool:
    """Whether each transform has committed a batch: before that, a sink that is away counts as a mistake."""
    with contextlib.suppress(OSError, ValueError):
        transforms = json.loads((folder / "state" / "status.json").read_bytes())["transforms"]
        return len(transforms) == len(SINKS) and all(each["batch_id"] >= 1 for each in transforms.values())
    return False


def _point(link: Path, target: str) -> None:
    new = link.with_name(f"{link.name}.new")
    new.symlink_to(target)
    new.replace(link)
