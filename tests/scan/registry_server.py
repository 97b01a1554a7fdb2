"""A small schema registry: the part of Confluent's HTTP interface that reads schemas by id."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class RegistryServer:
    """`login`: the user and password that it asks for. `asked`: how many schemas were read."""

    def __init__(self, login: str = "") -> None:
        self.schemas: list[dict[str, Any]] = []
        self.serialized: list[str] = []
        self.asked = 0
        self.login = f"Basic {base64.b64encode(login.encode()).decode()}" if login else None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def register(self, schema: str, serialized: bytes | None = None) -> int:
        """The id of a new schema. The registry leaves out the type of Avro schemas in its answers.

        `serialized`: the descriptor of a Protobuf file, for those who ask for it.
        """
        told = {} if serialized is None else {"schemaType": "PROTOBUF"}
        self.schemas.append({"schema": schema, **told})
        self.serialized.append(base64.b64encode(serialized or b"").decode())
        return len(self.schemas)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(registry: RegistryServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """GET /schemas/ids/NUMBER."""
            registry.asked += 1
            number = int(self.path.partition("?")[0].rpartition("/")[2])
            if 0 < number <= len(registry.schemas):
                asked = {"schema": registry.serialized[number - 1]} if "format=serialized" in self.path else {}
                self._answer(200, registry.schemas[number - 1] | asked)
            else:
                self._answer(404, {"error_code": 40403, "message": "Schema not found"})

        def _answer(self, status: int, content: dict[str, Any]) -> None:
            if registry.login not in (None, self.headers["Authorization"]):
                status, content = 401, {"error_code": 401, "message": "Unauthorized"}
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    return Handler
