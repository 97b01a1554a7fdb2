"""How object stores and HDFS are reached: endpoints and credentials of Hadoop's settings, for other clients.

Where Hadoop's settings name no credentials, the client looks for them as the store's own tools do: in the environment,
or at the machine it runs on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PREFIX = "spark.hadoop."
"""What Spark puts before the names of Hadoop's settings."""
_NAMENODES = ("dfs.nameservices", "dfs.ha.namenodes.", "dfs.namenode.rpc-address")
USED = ("fs.s3a.", "fs.gs.", "fs.azure.", "google.cloud.", *_NAMENODES)
"""What the names of the settings begin with that are used here."""
_AWS_REGION = re.compile(r"\bs3[.-]([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com")
_TENANT = re.compile(r"login\.[^/]+/([^/]+)/oauth2")


@dataclass(frozen=True)
class Access:
    """Hadoop's settings for object stores. Picklable; its repr shows names only, because values are secrets."""

    settings: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Access({', '.join(sorted(self.settings))})"

    def __hash__(self) -> int:
        return hash(frozenset(self.settings.items()))

    @classmethod
    def of_spark(cls, config: Mapping[str, str]) -> Access:
        """Those of a Spark configuration, whose names begin with `spark.hadoop.`."""
        named = {name.removeprefix(PREFIX): value for name, value in config.items() if name.startswith(PREFIX)}
        return cls({name: str(value) for name, value in named.items() if name.startswith(USED)})

    def s3(self, bucket: str) -> dict[str, Any]:
        """Arguments of obstore's S3Store."""
        endpoint = self._endpoint(bucket)
        found = {
            "access_key_id": self._s3(bucket, "access.key"),
            "secret_access_key": self._s3(bucket, "secret.key"),
            "session_token": self._s3(bucket, "session.token"),
            "endpoint": endpoint,
            "region": self._region(bucket, endpoint),
        }
        known: dict[str, Any] = {name: value for name, value in found.items() if value}
        if endpoint is not None and endpoint.startswith("http://"):
            known["client_options"] = {"allow_http": True}
        if "AnonymousAWSCredentialsProvider" in (self._s3(bucket, "aws.credentials.provider") or ""):
            known["skip_signature"] = True
        return known

    def gs(self) -> dict[str, Any]:
        """Arguments of obstore's GCSStore."""
        names = ("fs.gs.auth.service.account.json.keyfile", "google.cloud.auth.service.account.json.keyfile")
        key = next((self.settings[name] for name in names if name in self.settings), None)
        return {"service_account": key} if key else {}

    def azure(self, account: str, host: str) -> dict[str, Any]:
        """Arguments of obstore's AzureStore. `host`: `account.dfs.core.windows.net`."""

        def setting(name: str) -> str | None:
            return self.settings.get(f"{name}.{host}") or self.settings.get(name)

        tenant = _TENANT.search(setting("fs.azure.account.oauth2.client.endpoint") or "")
        found = {
            "account_key": setting("fs.azure.account.key"),
            "sas_key": setting("fs.azure.sas.fixed.token"),
            "client_id": setting("fs.azure.account.oauth2.client.id"),
            "client_secret": setting("fs.azure.account.oauth2.client.secret"),
            "tenant_id": tenant[1] if tenant else None,
        }
        return {"account_name": account} | {name: value for name, value in found.items() if value}

    def hdfs(self) -> dict[str, str]:
        """Settings of hdfs-native: where the namenodes of a nameservice are. It also reads HADOOP_CONF_DIR."""
        return {name: value for name, value in self.settings.items() if name.startswith(_NAMENODES)}

    def _s3(self, bucket: str, name: str) -> str | None:
        """A setting of S3A. Those of a bucket take precedence."""
        return self.settings.get(f"fs.s3a.bucket.{bucket}.{name}") or self.settings.get(f"fs.s3a.{name}")

    def _endpoint(self, bucket: str) -> str | None:
        given = self._s3(bucket, "endpoint")
        if not given or "://" in given:
            return given or None
        secure = (self._s3(bucket, "connection.ssl.enabled") or "true").lower() != "false"
        return f"{'https' if secure else 'http'}://{given}"

    def _region(self, bucket: str, endpoint: str | None) -> str | None:
        """S3A takes the region of an endpoint from its name."""
        named = _AWS_REGION.search(endpoint or "")
        return self._s3(bucket, "endpoint.region") or (named[1] if named else None)


NO_ACCESS = Access()
"""Nothing but what the environment has."""
