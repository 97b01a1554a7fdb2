"""The page's HTTP interface: what it serves, to whom, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from pathlib import Path

import httpx2 as httpx
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from tests.ui.synthetic import Synthetic
from windowpane.checkpoint.control import Requests
from windowpane.cli.app import app as command
from windowpane.errors import ConfigError, WindowpaneError
from windowpane.ui import app as module
from windowpane.ui.app import FILES, build_app
from windowpane.ui.feed import Feed
from windowpane.ui.guard import Guard, is_loopback
from windowpane.ui.hub import Hub
from windowpane.ui.serving import PageServer

TOKEN = "correct horse"
HERE = "http://127.0.0.1:8484"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WRONG_TOKEN_SECONDS", 0.0)


def client(made: Synthetic, token: str | None = None, host: str = "127.0.0.1") -> TestClient:
    return TestClient(build_app(made.store, Guard(host, token)), base_url=HERE)


def test_the_page_and_its_files_load_nothing_from_elsewhere(made: Synthetic) -> None:
    page = client(made).get("/")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.search(r"https?:|//[a-z]", page.text)
    for name in re.findall(r'(?:src|href)="page/([\w.]+)"', page.text):
        assert client(made).get(f"/page/{name}").status_code == 200
    for name, content in FILES.items():
        text = content.decode()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), name
        assert [link for link in re.findall(r"https?://[^\s\"')]+", text) if "www.w3.org" not in link] == [], name


def test_every_module_that_is_imported_is_there() -> None:
    for name, content in FILES.items():
        if name.endswith(".js"):
            assert set(re.findall(r'from "\./([\w.]+)"', content.decode())) <= set(FILES), name


def test_files_outside_the_page_are_not_served(made: Synthetic) -> None:
    assert client(made).get("/page/..%2fapp.py").status_code == 404
    assert client(made).get("/page/nothing.js").status_code == 404


def test_status_is_that_of_the_command(made: Synthetic) -> None:
    (made.folder / "pipeline.toml").write_text("", encoding="utf-8")
    printed = CliRunner().invoke(command, ["status", str(made.folder / "pipeline.toml"), "--json"])
    assert client(made).get("/api/status").json() == json.loads(printed.stdout)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "evil.example:8484", "[::bad"])
def test_other_names_for_this_machine_are_refused(made: Synthetic, host: str) -> None:
    """A page elsewhere may point its own name to 127.0.0.1 and then read what a browser here can reach."""
    assert client(made).get("/api/status", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:8484", "127.0.0.1:8484", "[::1]:8484", "LOCALHOST"])
def test_names_of_this_machine_are_not(made: Synthetic, host: str) -> None:
    assert client(made).get("/api/status", headers={"host": host}).status_code == 200


def test_without_a_token_nothing_can_be_changed(made: Synthetic) -> None:
    page = client(made)
    assert page.get("/api/about").json() == {"writes": False}
    refused = page.post("/api/ask/stop", headers={"x-windowpane": "1"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "read_only")
    assert Requests(made.store).take() is None


@pytest.mark.usefixtures("patient")
def test_with_a_token_everything_needs_it(made: Synthetic) -> None:
    page = client(made, TOKEN)
    for path in ("/", "/page/app.js", "/api/status", "/api/document", "/api/stream", "/api/about"):
        assert page.get(path).status_code == 401
        assert page.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
    assert page.get("/api/status", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert page.get("/api/about", headers={"authorization": f"Bearer {TOKEN}"}).json() == {"writes": True}


@pytest.mark.usefixtures("patient")
def test_the_token_in_the_address_becomes_a_cookie(made: Synthetic) -> None:
    page = client(made, TOKEN)
    answer = page.get(f"/?token={TOKEN}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "./")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert page.get("/api/status").status_code == 200


@pytest.mark.parametrize("request_", ["stop", "drain"])
@pytest.mark.usefixtures("patient")
def test_the_pipeline_is_asked_to_end(made: Synthetic, request_: str) -> None:
    page = client(made, TOKEN)
    headers = {"authorization": f"Bearer {TOKEN}", "x-windowpane": "1", "origin": HERE}
    assert page.post(f"/api/ask/{request_}", headers=headers).json() == {"asked": request_}
    assert Requests(made.store).take() == request_


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-windowpane": "1", "origin": "http://evil.example"},
        {"x-windowpane": "1", "origin": "http://127.0.0.1:9999"},
        {"origin": HERE},
        {"x-windowpane": "1", "origin": "null"},
    ],
)
def test_only_the_page_itself_may_ask(made: Synthetic, headers: dict[str, str]) -> None:
    page = client(made, TOKEN)
    answer = page.post("/api/ask/stop", headers={"authorization": f"Bearer {TOKEN}", **headers})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "origin")
    assert Requests(made.store).take() is None


def test_a_pipeline_that_does_not_run_is_not_asked(made: Synthetic) -> None:
    made.stop()
    headers = {"authorization": f"Bearer {TOKEN}", "x-windowpane": "1"}
    answer = client(made, TOKEN).post("/api/ask/stop", headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "NOT_RUNNING")
    answer = client(made, TOKEN).post("/api/ask/explode", headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "UNKNOWN_REQUEST")


def test_other_machines_need_a_token() -> None:
    with pytest.raises(ConfigError, match="needs a token"):
        Guard("0.0.0.0")
    with pytest.raises(ConfigError, match="at least 8"):
        Guard("0.0.0.0", "short")
    assert Guard("0.0.0.0", TOKEN).judge({"host": "pipelines.example"}, TOKEN, writes=False) == "ok"
    assert [is_loopback(host) for host in ("127.0.0.5", "::1", "localhost", "10.0.0.1", "::")] == [True] * 3 + [
        False
    ] * 2


def test_a_page_gets_the_whole_first_and_then_changes(made: Synthetic) -> None:
    async def follow() -> list[str]:
        found, hub = list[str](), Hub(Feed(made.store), every_seconds=0.02)
        async for event in hub.events():
            found.append(event.decode())
            if len(found) == 1:
                made.run(1)
            elif "batch_id" in found[-1] and '"history"' in found[-1]:
                await hub.close()
                break
        return found

    events = asyncio.run(asyncio.wait_for(follow(), 20))
    assert events[0].startswith("event: whole\ndata: {")
    assert events[-1].startswith("event: change\ndata: {")
    assert json.loads(events[-1].split("data: ", 1)[1])["history"]["busiest"][0]["batch_id"] == 30


def test_a_real_server_serves_and_ends(made: Synthetic) -> None:
    server = PageServer(made.store, Guard("127.0.0.1"), 0)
    server.start()
    try:
        with httpx.stream("GET", f"{server.url}api/stream", timeout=10) as stream:
            assert next(stream.iter_lines()) == "event: whole"
        assert httpx.get(f"{server.url}api/status", timeout=10).json()["state"] == "running"
    finally:
        server.close()
    with pytest.raises(httpx.TransportError):
        httpx.get(server.url, timeout=10)


def test_a_port_that_is_taken(made: Synthetic) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(WindowpaneError, match="another one, or 0"):
        PageServer(made.store, Guard("127.0.0.1"), taken.getsockname()[1])


def run(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(command, [*args])
    return done.exit_code, done.stderr


def test_mistakes_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pipeline.toml"
    code, text = run("ui", str(file))
    assert code == 2
    assert "[CONFIG_NOT_FOUND]" in text
    file.write_text("", encoding="utf-8")
    code, text = run("ui", str(file), "--port", "0")
    assert code == 1
    assert "[NEVER_RUN]" in text
    code, text = run("ui", str(file), "--host", "0.0.0.0")
    assert code == 2
    assert "[UI_TOKEN]" in text
    monkeypatch.setenv("WINDOWPANE_UI_TOKEN", "short")
    assert "at least 8 characters" in run("ui", str(file))[1]


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pipeline.toml").write_text("", encoding="utf-8")
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    code, text = run("ui", str(tmp_path / "pipeline.toml"))
    assert code == 2
    assert "pip install 'windowpane[ui]'" in text
