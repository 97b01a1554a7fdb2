"""The HTTP endpoint that Prometheus scrapes."""

from __future__ import annotations

import threading
from wsgiref.simple_server import WSGIServer

from prometheus_client import start_http_server

from windowpane.errors import WindowpaneError
from windowpane.observe.metrics import PipelineMetrics


class MetricsEndpoint:
    """Serves metrics in background threads. With port 0, `url` has the free port that was chosen."""

    def __init__(self, metrics: PipelineMetrics, port: int, host: str) -> None:
        self._server: WSGIServer
        self._thread: threading.Thread
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=metrics.registry)
        except (OSError, OverflowError) as refused:
            raise WindowpaneError(
                "METRICS_PORT", f"metrics cannot be served at {host}:{port}: {refused}",
                "another process may have the port: set options.metrics.port, or 0 for a free one",
            ) from refused  # fmt: skip
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_port}/metrics"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
