"""librdkafka by ctypes: bytes at addresses become Arrow arrays, and our options are among the library's own."""

from __future__ import annotations

import ctypes
import random
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from windowpane.remote import kafka
from windowpane.remote.kafka_consumer import ConsumerClient
from windowpane.remote.librdkafka import DEFAULTS, Client, ClientError, library
from windowpane.remote.messages_by_numpy import gathered


def addressed(values: list[bytes | None]) -> tuple[object, np.ndarray, np.ndarray]:
    """Values in buffers of their own, some of several values with gaps, with their addresses and lengths."""
    rng = random.Random(1)
    kept: list[object] = []
    addresses: list[int] = []
    pending: list[tuple[int, bytes]] = []

    def flush() -> None:
        content = b"\xee" * 3 + b"\xee\xee\xee".join(value for _, value in pending)
        buffer = ctypes.create_string_buffer(content)
        kept.append(buffer)
        at = ctypes.addressof(buffer) + 3
        for number, value in pending:
            addresses[number] = at
            at += len(value) + 3
        pending.clear()

    for number, value in enumerate(values):
        addresses.append(0)
        if value is not None:
            pending.append((number, value))
        if rng.random() < 0.3:
            flush()
    flush()
    lengths = np.array([len(value or b"") for value in values], np.int64)
    return kept, np.array(addresses, np.int64), lengths


@pytest.mark.parametrize("longest", [0, 3, 12, 13, 200])
def test_bytes_are_copied_from_their_addresses(longest: int) -> None:
    rng = random.Random(longest)
    values = [None if rng.random() < 0.1 else rng.randbytes(rng.randint(0, longest)) for _ in range(500)]
    kept, addresses, lengths = addressed(values)
    found = gathered(addresses, lengths)
    del kept
    assert found.to_pylist() == values
    assert found.type == pa.binary()


def test_no_bytes_at_all() -> None:
    none = np.empty(0, np.int64)
    assert gathered(none, none).to_pylist() == []
    assert gathered(np.zeros(2, np.int64), np.zeros(2, np.int64)).to_pylist() == [None, None]


@cache
def properties(folder: Path) -> dict[str, str]:
    """The library's own list of its properties: of which role each is, C, P or * for both."""
    c = ctypes.CDLL(None)
    c.fopen.restype, c.fopen.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_char_p]
    show = library().blocking.rd_kafka_conf_properties_show
    show.argtypes, c.fclose.argtypes = [ctypes.c_void_p], [ctypes.c_void_p]
    path = folder / "properties"
    file = c.fopen(str(path).encode(), b"w")
    show(file)
    c.fclose(file)
    cells = [[cell.strip() for cell in line.split("|")] for line in path.read_text().splitlines() if "|" in line]
    return {cell[0]: cell[1] for cell in cells if cell[1] in ("C", "P", "*")}


@pytest.mark.parametrize(("role", "letter"), [("consumer", "C"), ("producer", "P")])
def test_our_options_are_those_of_the_library(tmp_path: Path, role: kafka.Role, letter: str) -> None:
    known = properties(tmp_path)
    assert len(known) > 100
    ours = kafka.translated_options(role)
    assert "bootstrap.servers" in ours
    assert {name: known.get(name) for name in ours if known.get(name) not in ("*", letter)} == {}
    written = {"sasl.username", "sasl.password", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location"}
    written |= {"ssl.keystore.location", "ssl.keystore.password", "ssl.endpoint.identification.algorithm", "log_level"}
    assert written <= known.keys()
    if role == "consumer":
        assert DEFAULTS.keys() <= known.keys()


@pytest.mark.parametrize("kind", [Client, ConsumerClient])
def test_a_refused_setting_is_named(kind: type[Client | ConsumerClient]) -> None:
    with pytest.raises(ClientError, match=r"isolation\.level"):
        kind({"bootstrap.servers": "127.0.0.1:1", "isolation.level": "snapshot"})
