"""Messages in librdkafka's memory become Arrow columns, with the compiled library and without, and are freed once."""

from __future__ import annotations

import ctypes
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from windowpane.native import compiled
from windowpane.remote import messages_by_library
from windowpane.remote.message_batches import Messages, Wanted


class Message(ctypes.Structure):
    """rd_kafka_message_t."""

    _fields_ = (
        ("error", ctypes.c_int), ("topic", ctypes.c_void_p), ("partition", ctypes.c_int32),
        ("value", ctypes.c_void_p), ("value_bytes", ctypes.c_size_t), ("key", ctypes.c_void_p),
        ("key_bytes", ctypes.c_size_t), ("offset", ctypes.c_int64), ("own", ctypes.c_void_p),
    )  # fmt: skip


class Memory:
    """Messages as librdkafka has them."""

    def __init__(self, values: list[tuple[int, bytes | None, bytes | None]]) -> None:
        self.kept: list[Any] = []
        self.freed: list[int] = []
        self.messages = [self._message(number, *each) for number, each in enumerate(values)]
        self.pointers = np.array([ctypes.addressof(each) for each in self.messages], np.uint64)
        destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.freed.append)
        stamp = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))(
            lambda at, _kind: self._time(at)
        )
        self.functions = SimpleNamespace(rd_kafka_message_destroy=destroy, rd_kafka_message_timestamp=stamp)

    def _message(self, number: int, error: int, key: bytes | None, value: bytes | None) -> Message:
        addresses = []
        for content in (value, key):
            buffer = None if content is None else ctypes.create_string_buffer(content, len(content) + 1)
            self.kept.append(buffer)
            addresses.append((0 if buffer is None else ctypes.addressof(buffer), len(content or b"")))
        return Message(error, 0, 0, *addresses[0], *addresses[1], 100 + number, 0)

    def _time(self, at: int) -> int:
        assert at not in self.freed
        return 1_000 + int(Message.from_address(at).offset)

    def taken(self, wanted: Wanted) -> Messages:
        functions = self.functions
        return messages_by_library.take_messages(self.pointers, functions, functions, wanted, "code {}".format)


@pytest.fixture(params=["compiled", "numpy"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        monkeypatch.setattr(messages_by_library, "compiled", lambda: None)
    elif compiled() is None:
        pytest.skip("no compiled library: `make setup` builds it with a compiler")


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("count", [0, 1, 8, 9, 500])
@pytest.mark.parametrize("wanted", [Wanted(), Wanted(key=True, time=True)])
def test_columns_are_the_messages(count: int, wanted: Wanted) -> None:
    rng = random.Random(count)
    given = [
        (
            rng.choice([0] * 9 + [-191]), rng.choice([None, b"", rng.randbytes(3)]),
            rng.choice([None, b"", rng.randbytes(9), rng.randbytes(rng.randrange(300))]),
        )
        for _ in range(count)
    ]  # fmt: skip
    memory = Memory(given)
    found = memory.taken(wanted)
    good = [(100 + number, key, value) for number, (error, key, value) in enumerate(given) if not error]
    assert found.offsets.tolist() == [offset for offset, _, _ in good]
    found.values.validate(full=True)
    assert found.values.to_pylist() == [value for _, _, value in good]
    assert (found.keys is not None, found.times_ms is not None) == (wanted.key, wanted.time)
    if found.keys is not None and found.times_ms is not None:
        assert found.keys.to_pylist() == [key for _, key, _ in good]
        assert found.times_ms.tolist() == [1_000 + offset for offset, _, _ in good]
    ends = [(error, 100 + number) for number, (error, _, _) in enumerate(given) if error]
    assert [(event.code, event.offset, event.text) for event in found.events] == [
        (code, offset, f"code {code}") for code, offset in ends
    ]
    assert memory.freed == memory.pointers.tolist()


@pytest.mark.usefixtures("_way")
def test_no_value_in_any_message() -> None:
    assert Memory([(0, b"k", None)] * 3).taken(Wanted(key=True)).values.to_pylist() == [None] * 3


def test_batches_too_large_for_an_arrow_array_are_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages_by_library, "_MOST_BYTES", 10)
    memory = Memory([(0, None, b"x" * 8)] * 2)
    assert memory.taken(Wanted()).values.to_pylist() == [b"x" * 8] * 2
    assert memory.freed == memory.pointers.tolist()
