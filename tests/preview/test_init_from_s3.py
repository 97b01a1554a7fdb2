"""`windowpane init --from s3a://…` against an S3 server: the pipeline can be checked and previewed as it is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from scripts.servers import S3
from tests.preview.test_init_from import ROWS, previewed, run, settings
from windowpane.remote.access import Access
from windowpane.remote.objects import client, obstore_module

pytestmark = [pytest.mark.slow, pytest.mark.s3]


def put(s3: S3, key: str, content: bytes) -> None:
    obstore_module().put(client(f"s3a://{s3.bucket}/x", Access.of_spark(s3.settings)), key, content)


@pytest.fixture(autouse=True)
def credentials(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the environment, as the tools of AWS take them."""
    given = Access.of_spark(s3.settings).s3(s3.bucket)
    monkeypatch.setenv("AWS_ENDPOINT_URL", str(given["endpoint"]))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", str(given["access_key_id"]))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", str(given["secret_access_key"]))
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


def test_a_folder_of_a_bucket(s3: S3, tmp_path: Path) -> None:
    for day in (1, 2):
        lines = "".join(json.dumps(row) + "\n" for row in ROWS[day * 100 : day * 100 + 100])
        put(s3, f"init/orders/dt=2026-01-0{day}/a.json.gz", gzip.compress(lines.encode()))
    put(s3, "init/orders/_SUCCESS", b"")
    code, out, err = run("init", str(tmp_path), "--from", f"s3a://{s3.bucket}/init/orders")
    assert code == 0, out + err
    stream = next(iter(settings(tmp_path)["streams"].values()))
    assert stream["format"] == "json"
    assert stream["path"] == f"s3a://{s3.bucket}/init/orders"
    assert stream["eventtime"]["column"] == "event_time"
    assert "dt" in stream["schema"]
    code, out, err = run("check", str(tmp_path / "pipeline.toml"))
    assert code == 0, out + err
    assert previewed(tmp_path)["account"]["in"] == 200


def test_what_is_not_there(s3: S3, tmp_path: Path) -> None:
    code, _, err = run("init", str(tmp_path), "--from", f"s3a://{s3.bucket}/init/nothing")
    assert code == 2
    assert err.startswith("[PATH_NOT_FOUND]")
    code, _, err = run("init", str(tmp_path), "--from", "s3a://no-such-bucket/x")
    assert code == 2
    assert err.startswith("[")
    assert "Traceback" not in err
