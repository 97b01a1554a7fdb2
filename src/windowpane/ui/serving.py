"""Serves the page: in the main thread (`windowpane ui`) or beside a running pipeline (`windowpane run --ui`)."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import uvicorn

from windowpane.checkpoint.store import Store
from windowpane.errors import WindowpaneError
from windowpane.ui.app import build_app
from windowpane.ui.guard import Guard

_START_SECONDS = 10.0


class _Server(uvicorn.Server):
    """Ends the streams of open pages before it waits for them."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.config.app.state.hub.close()  # type: ignore[union-attr]  # it is a Starlette
        await super().shutdown(sockets)


class PageServer:
    """A bound port, with the page behind it once it serves. With port 0, `url` has the free port that was chosen."""

    def __init__(self, store: Store, guard: Guard, port: int) -> None:
        self._socket = _bound(guard.host, port)
        shown = f"[{guard.host}]" if ":" in guard.host else guard.host
        self.url = f"http://{shown}:{self._socket.getsockname()[1]}/"
        config = uvicorn.Config(
            build_app(store, guard),
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        self._server = _Server(config)
        self._thread: threading.Thread | None = None

    def serve(self) -> None:
        """Serve until Ctrl-C or SIGTERM."""
        with contextlib.suppress(KeyboardInterrupt):
            self._server.run(sockets=[self._socket])

    def start(self) -> None:
        """Serve in a thread until `close`."""
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="windowpane-ui", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started and time.monotonic() < deadline:
            time.sleep(0.01)

    def close(self) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(5.0)
        self._socket.close()


def _bound(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=100)
    except (OSError, OverflowError) as refused:
        raise WindowpaneError(
            "UI_PORT",
            f"the page cannot be served at {host}:{port}: {refused}",
            "another process may have the port: choose another one, or 0 for a free one",
        ) from refused
