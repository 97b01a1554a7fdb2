"""The webhook sink: posts rows as JSON arrays to a URL, at least once.

Each request has a header `Idempotency-Key` that a repeated batch repeats, so a receiver can drop what it has.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus

from windowpane.connectors.sinks import WHOLE_JSON_SQL, Sink, SinkBatch, SinkSettings
from windowpane.errors import SinkError, gist

HEADER = "header."
"""How options begin that become headers of the requests."""
_MAY_PASS = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
_DEFAULT_ROWS, _DEFAULT_SECONDS = 500, 30


class WebhookSink(Sink):
    """`POST` with up to `rows_per_request` rows."""

    wants_identity = True

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        super().__init__(name)
        self._url = options["url"]
        self._rows = int(options.get("rows_per_request", _DEFAULT_ROWS))
        self._seconds = int(options.get("timeout_seconds", _DEFAULT_SECONDS))
        own = {key.removeprefix(HEADER): value for key, value in options.items() if key.startswith(HEADER)}
        self._headers = {"Content-Type": "application/json", "User-Agent": "windowpane", **own}

    @classmethod
    def create(cls, name: str, settings: SinkSettings) -> WebhookSink:
        return cls(name, settings.options)

    @property
    def place(self) -> str:
        return self._url.partition("?")[0]  # a query may have a token

    def write(self, batch: SinkBatch) -> None:
        frame = batch.frame
        text = "value" if batch.side_records else f"to_json(struct(*), {WHOLE_JSON_SQL})"
        rows = frame.selectExpr(f"{text} AS value").toArrow().column(0).to_pylist()
        for first in range(0, len(rows), self._rows):
            batch.check_lease()
            self._post(batch, first, rows[first : first + self._rows])

    def _post(self, batch: SinkBatch, first: int, rows: list[str]) -> None:
        headers = self._headers | {
            "Idempotency-Key": f"{batch.identity}-{first}",
            "Windowpane-Transform": batch.transform,
            "Windowpane-Batch": str(batch.batch_id),
        }
        body = f"[{','.join(rows)}]".encode()
        request = urllib.request.Request(self._url, body, headers, method="POST")  # noqa: S310  # checked: http
        try:
            with urllib.request.urlopen(request, timeout=self._seconds):  # noqa: S310
                return
        except urllib.error.HTTPError as refused:
            passing = refused.code >= HTTPStatus.INTERNAL_SERVER_ERROR or refused.code in _MAY_PASS
            what = f"sink `{self.name}`: {self.place} answered {refused.code} {refused.reason}"
            raise SinkError("SINK_WRITE", what, passing=passing) from refused
        except OSError as failed:
            raise SinkError("SINK_WRITE", f"sink `{self.name}` cannot reach {self.place}: {gist(failed)}") from failed
