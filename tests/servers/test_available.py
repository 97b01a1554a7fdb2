"""A server that cannot be had: a skipped test that says why, and a failure where CI is set."""

from __future__ import annotations

import pytest

from scripts.servers import UnavailableError, bring
from tests.servers.conftest import available


def test_without_a_server_tests_are_skipped_but_not_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise UnavailableError("install it")

    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="install it"):
        available(missing)
    monkeypatch.setenv("CI", "1")
    with pytest.raises(UnavailableError):
        available(missing)


def test_a_script_that_fails_tells_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "nowhere")
    with pytest.raises(UnavailableError, match="JAVA_HOME is nowhere, which holds no Java 17"):
        bring("scripts/java")
