"""`windowpane ui` and `windowpane run --ui`: the live page of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from windowpane.checkpoint.store import Store
from windowpane.cli.status import checkpoint_store, never_run
from windowpane.remote.optional_packages import optional_module
from windowpane.runtime.status import read_status
from windowpane.ui.guard import Guard

if TYPE_CHECKING:
    from windowpane.ui.serving import PageServer

LOCALHOST = "127.0.0.1"


def serve_page(
    path: Path | None, place: str | None, *, host: str, port: int, token: str | None, say: Callable[[str], None]
) -> None:
    """Serve the page of a pipeline until Ctrl-C; StateError when nothing has ever run there."""
    store = checkpoint_store(path, place)
    guard = _guard(host, token)
    if read_status(store) is None:
        raise never_run(store.address())
    server = _server(store, guard, port)
    say(f"{_address(server, token)}\nCtrl-C ends the page, and not the pipeline.")
    server.serve()


@contextmanager
def showing(store: Store, port: int | None, token: str | None, say: Callable[[str], None]) -> Iterator[None]:
    """Serve the page beside what runs in the block, if a port is given."""
    if port is None:
        yield
        return
    server = _server(store, _guard(LOCALHOST, token), port)
    server.start()
    say(_address(server, token))
    try:
        yield
    finally:
        server.close()


def _guard(host: str, token: str | None) -> Guard:
    """Who may see the page. ConfigError if a package for it is missing."""
    for package in ("starlette", "uvicorn"):
        optional_module(package, "live pages", extra="ui")
    return Guard(host, token)


def _server(store: Store, guard: Guard, port: int) -> PageServer:
    from windowpane.ui.serving import PageServer  # noqa: PLC0415  # needs packages that may be missing

    return PageServer(store, guard, port)


def _address(server: PageServer, token: str | None) -> str:
    """Without the token: it would stay in logs."""
    return f"live page: {server.url}" + ("?token=…, with the token that you gave" if token else "")
