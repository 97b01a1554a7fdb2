"""The Redis sink: the latest result of each window and group under a key, other rows in a stream.

One transaction (MULTI) writes a batch's rows and its number, so a batch that comes again is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from windowpane.checkpoint.lease import lease_lost
from windowpane.connectors.sinks import (
    GROUP_KEY,
    IDENTITY,
    WHOLE_JSON_SQL,
    WINDOW_ID,
    Sink,
    SinkBatch,
    SinkSettings,
)
from windowpane.connectors.table_sinks.table_sink import batch_number, writer_of, written_before
from windowpane.errors import SinkError, gist
from windowpane.remote.optional_packages import optional_module

if TYPE_CHECKING:
    from redis import Redis

_DEFAULT_LENGTH = 1_000_000


class RedisSink(Sink):
    """`SET prefix:window:group row` for results with an identity; `XADD prefix` for other rows and side records."""

    delivery = "exactly_once"
    wants_identity = True

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        super().__init__(name)
        self._redis = redis()
        self._prefix, self._url = options["key"], options["url"]
        self._expires = int(options.get("ttl_seconds", 0))
        self._length = int(options.get("max_length", _DEFAULT_LENGTH))
        self._password = options.get("password")
        self._connection: Redis | None = None

    @classmethod
    def create(cls, name: str, settings: SinkSettings) -> RedisSink:
        return cls(name, settings.options)

    @property
    def place(self) -> str:
        return self._prefix

    def check(self, columns: Sequence[str]) -> None:
        try:
            self._connected().ping()
        except self._redis.RedisError as failed:
            self.close()
            raise self._failed(failed) from failed

    def write(self, batch: SinkBatch) -> None:
        try:
            self._write(batch)
        except self._redis.RedisError as failed:
            self.close()
            raise self._failed(failed) from failed

    def _failed(self, failed: Exception) -> SinkError:
        lasting = isinstance(failed, self._redis.AuthenticationError | self._redis.ResponseError)
        return SinkError("SINK_WRITE", f"sink `{self.name}` (redis): {gist(failed)}", passing=not lasting)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> Redis:
        if self._connection is None:
            more = {"password": self._password} if self._password else {}
            connection: Redis = self._redis.Redis.from_url(self._url, socket_timeout=30, **more)
            self._connection = connection
        return self._connection

    def _write(self, batch: SinkBatch) -> None:
        batches = f"{self._prefix}:windowpane:{writer_of(batch)}"
        connection: Any = self._connected()
        with connection.pipeline(transaction=True) as commands:
            commands.watch(batches)
            number, fence = _noted(commands.get(batches))
            if fence > batch.fence:
                raise lease_lost(f"of batch {batch.batch_id} for sink `{self.name}`")
            if written_before(batch, number) == "same":
                return
            commands.multi()
            for key, value in _rows(batch):
                self._add(commands, key, value)
            commands.set(batches, f"{batch_number(batch)} {batch.fence}")
            batch.check_lease()
            commands.execute()

    def _add(self, commands: Any, key: str | None, value: str) -> None:
        if key is not None:
            commands.set(f"{self._prefix}:{key}", value, ex=self._expires or None)
        else:
            commands.xadd(self._prefix, {"value": value}, maxlen=self._length, approximate=True)


def _noted(value: bytes | None) -> tuple[int | None, int]:
    """The number of the last batch, and the fence of the process that has written it."""
    if value is None:
        return None, 0
    number, fence = value.split()
    return int(number), int(fence)


def _rows(batch: SinkBatch) -> Iterator[tuple[str | None, str]]:
    """The key of each row, None if it has no identity, and the row as JSON. Redis takes one command for each."""
    frame = batch.frame
    if batch.side_records:
        yield from ((None, value) for value in frame.toArrow().column(0).to_pylist())
        return
    own = ", ".join(f"`{name}`" for name in frame.columns if name not in IDENTITY)
    key = f"concat({WINDOW_ID}, ':', {GROUP_KEY})" if batch.identified else "CAST(NULL AS STRING)"
    found: pa.Table = frame.selectExpr(f"{key} AS k", f"to_json(struct({own}), {WHOLE_JSON_SQL}) AS v").toArrow()
    yield from zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True)


def redis() -> Any:
    """The package; ConfigError if it is not installed."""
    return optional_module("redis", "Redis sinks", extra="redis")
