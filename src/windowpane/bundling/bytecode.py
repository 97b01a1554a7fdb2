"""Compiles modules to files that are the same on every machine, and that Python uses without looking at the source."""

from __future__ import annotations

import importlib.util
import marshal
import sys
import warnings
from pathlib import PurePosixPath

_UNCHECKED_HASH = 0b01
_WITHOUT_REFERENCES = 2
"""The last format of `marshal` in which equal code has equal bytes, whatever else refers to its constants."""


def compiled_path(source: PurePosixPath) -> PurePosixPath:
    return source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"


def compiled(source: PurePosixPath, content: bytes) -> bytes | None:
    """The compiled module as PEP 552 defines it; None if this Python cannot compile it (templates, other versions)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(content, str(source), "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError):
        return None
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH.to_bytes(4, "little") + importlib.util.source_hash(content)
    try:
        return head + marshal.dumps(code, _WITHOUT_REFERENCES)
    except ValueError:
        return None
