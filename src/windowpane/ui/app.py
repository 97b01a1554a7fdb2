"""The page's HTTP interface: its files, the document, a stream of changes, and requests to stop or drain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.resources import files
from typing import Any, get_args

from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from windowpane.checkpoint.control import Request, Requests
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.store import Store
from windowpane.errors import StateError
from windowpane.ui.feed import Feed
from windowpane.ui.guard import REFUSALS, Guard
from windowpane.ui.hub import Hub

FILES = {
    each.name: each.read_bytes()
    for each in sorted(files("windowpane.ui").joinpath("page").iterdir(), key=lambda each: each.name)
}
"""The page: all that a browser loads."""
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}
WRONG_TOKEN_SECONDS = 0.5
_YEAR = 365 * 86400


def build_app(store: Store, guard: Guard, every_seconds: float | None = None) -> Starlette:
    """The application for one pipeline. `every_seconds`: how often the checkpoint is read while a page is open."""
    feed = Feed(store)
    hub = Hub(feed, every_seconds)

    async def page(request: HttpRequest) -> Response:
        return _login(request) or _file("index.html")

    async def file(request: HttpRequest) -> Response:
        return _file(request.path_params["name"])

    async def status(_: HttpRequest) -> Response:
        return await _answered(feed.status)

    async def document(_: HttpRequest) -> Response:
        return JSONResponse(await hub.read())

    async def stream(_: HttpRequest) -> Response:
        return StreamingResponse(hub.events(), media_type="text/event-stream")

    async def about(_: HttpRequest) -> Response:
        return JSONResponse({"writes": guard.token is not None})

    async def ask(request: HttpRequest) -> Response:
        return await _answered(lambda: _ask(store, request.path_params["request"]))

    routes = [
        Route("/", page), Route("/page/{name}", file), Route("/api/status", status), Route("/api/document", document),
        Route("/api/stream", stream), Route("/api/about", about),
        Route("/api/ask/{request}", ask, methods=["POST"]),
    ]  # fmt: skip
    app = Starlette(routes=routes)
    app.add_middleware(_Guarded, guard=guard)
    app.state.hub = hub
    return app


class _Guarded:
    """Refuses what the guard refuses, and adds headers that keep the page from loading anything from elsewhere."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app, self._guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = HttpRequest(scope)
        verdict = self._guard.judge(
            dict(request.headers), _token(request), writes=request.method not in ("GET", "HEAD")
        )

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        if verdict == "ok":
            await self._app(scope, receive, send_with_headers)
            return
        if verdict == "token":
            await asyncio.sleep(WRONG_TOKEN_SECONDS)
        code, reason = REFUSALS[verdict]
        await JSONResponse({"error": {"code": verdict, "message": reason}}, code)(scope, receive, send_with_headers)


def _token(request: HttpRequest) -> str | None:
    """From the header, the address or the cookie."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given
    return request.query_params.get("token") or request.cookies.get(_cookie(request))


def _cookie(request: HttpRequest) -> str:
    """Cookies do not tell ports apart, and a machine may show several pipelines."""
    return f"windowpane_{request.url.port or 80}"


def _login(request: HttpRequest) -> Response | None:
    """A token in the address becomes a cookie, so that it stays out of the history and of shared addresses."""
    token = request.query_params.get("token")
    if token is None:
        return None
    answer = RedirectResponse("./", 303)
    answer.set_cookie(_cookie(request), token, max_age=_YEAR, path=None, httponly=True, samesite="strict")
    return answer


def _file(name: str) -> Response:
    if name not in FILES:
        return JSONResponse({"error": {"code": "not_found", "message": f"there is no file {name}"}}, 404)
    return Response(FILES[name], media_type=_TYPES[name.rpartition(".")[2]])


async def _answered(work: Callable[[], Any]) -> Response:
    """The result of something that blocks; what the checkpoint refuses as an error for the page."""
    try:
        return JSONResponse(await asyncio.to_thread(work))
    except StateError as failed:
        return JSONResponse({"error": failed.as_dict()}, 409)


def _ask(store: Store, request: str) -> dict[str, str]:
    """Ask the running pipeline to end. Does not wait: the page sees it end."""
    if request not in get_args(Request):
        raise StateError("UNKNOWN_REQUEST", f"there is no request {request}", "requests: drain, stop")
    if not RunLock(store).held():
        raise StateError("NOT_RUNNING", "the pipeline does not run")
    Requests(store).put("drain" if request == "drain" else "stop")
    return {"asked": request}
