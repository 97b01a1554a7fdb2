"""How object stores are reached: Hadoop's settings as arguments of the client, and none of them in texts."""

from __future__ import annotations

import pickle

import pytest

from windowpane.errors import ConfigError
from windowpane.remote import objects
from windowpane.remote.access import Access

KEYS = {"spark.hadoop.fs.s3a.access.key": "AKIA", "spark.hadoop.fs.s3a.secret.key": "s3cret"}


def test_the_settings_of_s3a_and_those_of_a_bucket() -> None:
    access = Access.of_spark(
        KEYS
        | {
            "spark.hadoop.fs.s3a.endpoint": "minio:9000",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
            "spark.hadoop.fs.s3a.bucket.other.access.key": "OTHER",
            "spark.hadoop.fs.s3a.bucket.other.endpoint": "https://s3.eu-west-1.amazonaws.com",
            "spark.hadoop.fs.s3a.bucket.open.aws.credentials.provider": "org.apache.AnonymousAWSCredentialsProvider",
            "spark.executor.memory": "1g",
        }
    )
    assert access.s3("mine") == {
        "access_key_id": "AKIA", "secret_access_key": "s3cret", "endpoint": "http://minio:9000",
        "client_options": {"allow_http": True},
    }  # fmt: skip
    assert access.s3("other") == {
        "access_key_id": "OTHER", "secret_access_key": "s3cret", "endpoint": "https://s3.eu-west-1.amazonaws.com",
        "region": "eu-west-1",
    }  # fmt: skip
    assert access.s3("open")["skip_signature"] is True
    assert Access().s3("mine") == {}, "what the environment has"


def test_the_settings_of_google_and_azure() -> None:
    host = "lake.dfs.core.windows.net"
    access = Access({
        "fs.gs.auth.service.account.json.keyfile": "/etc/key.json",
        f"fs.azure.account.key.{host}": "k1",
        "fs.azure.account.oauth2.client.id.other.dfs.core.windows.net": "id",
        "fs.azure.account.oauth2.client.secret": "secret",
        "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant-1/oauth2/token",
    })  # fmt: skip
    assert access.gs() == {"service_account": "/etc/key.json"}
    assert access.azure("lake", host)["account_key"] == "k1"
    assert access.azure("other", "other.dfs.core.windows.net") == {
        "account_name": "other", "client_id": "id", "client_secret": "secret", "tenant_id": "tenant-1",
    }  # fmt: skip


def test_no_text_has_a_secret() -> None:
    access = Access.of_spark(KEYS)
    assert "s3cret" not in repr(access)
    assert str(access) == "Access(fs.s3a.access.key, fs.s3a.secret.key)"
    assert pickle.loads(pickle.dumps(access)) == access
    assert hash(access) == hash(Access.of_spark(KEYS))


def test_addresses() -> None:
    assert objects.scheme_of("/data/state") == objects.scheme_of("C:/x") == ""
    assert objects.scheme_of("S3A://bucket/x") == "s3a"
    assert objects.key_of("s3a://bucket/a/b c/") == "a/b c"
    assert objects.key_of("s3a://bucket") == ""
    assert not objects.is_object_store("hdfs://namenode/x")


def test_without_obstore_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> None:
        raise ModuleNotFoundError

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(ConfigError) as refused:
        objects.obstore_module()
    assert refused.value.code == "MISSING_PACKAGE"
    assert "windowpane[s3]" in (refused.value.hint or "")
