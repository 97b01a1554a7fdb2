"""Who may see the page: checks of the Host header, the token and the origin of requests that change something."""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from windowpane.errors import ConfigError

MIN_TOKEN = 8
HEADER = "x-windowpane"
"""Requests that change something have this header. Forms and images of other pages cannot send it."""
Verdict: TypeAlias = Literal["ok", "host", "token", "origin", "read_only"]
REFUSALS: dict[Verdict, tuple[int, str]] = {
    "host": (421, "this page is served under another name: open it by the address that windowpane printed"),
    "token": (401, "this page needs its token: open /?token=…, with the token that windowpane was given"),
    "origin": (403, "only the page itself may ask for this"),
    "read_only": (403, "the page cannot change anything: start it with --ui-token to stop or drain from here"),
}
"""The answers to refused requests."""


@dataclass(frozen=True)
class Guard:
    """`host`: the address that the page is bound to. Without a token, only a loopback address is allowed."""

    host: str
    token: str | None = None

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < MIN_TOKEN:
            hint = "a good one: python -c 'import secrets; print(secrets.token_urlsafe())'"
            raise ConfigError("BAD_OPTION", f"--ui-token needs at least {MIN_TOKEN} characters", hint)
        if self.token is None and not is_loopback(self.host):
            raise ConfigError(
                "UI_TOKEN",
                f"a page at {self.host} can be opened from other machines, and needs a token",
                "add --ui-token TOKEN or set WINDOWPANE_UI_TOKEN; or leave out --host to serve this machine only",
            )

    def judge(self, headers: dict[str, str], token: str | None, *, writes: bool) -> Verdict:
        """`headers`: by lower-case names. `token`: the one that the request has."""
        if not self._is_named_right(headers.get("host", "")):
            return "host"
        if writes and self.token is None:
            return "read_only"
        if self.token is not None and not hmac.compare_digest((token or "").encode(), self.token.encode()):
            return "token"
        if writes and not (_same_origin(headers) and HEADER in headers):
            return "origin"
        return "ok"

    def _is_named_right(self, host: str) -> bool:
        """Without a token, only names of this machine: another site may point a name of its own here.

        With one, such a site has no cookie.
        """
        return self.token is not None or is_loopback(_name(host))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _name(host: str) -> str:
    """A Host header without its port, and an IPv6 address without its brackets."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _same_origin(headers: dict[str, str]) -> bool:
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host")
