"""Options of codecs, checked when a codec is made on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from windowpane.errors import ConfigError, nearest


def checked_options(codec: str, options: Mapping[str, str], known: tuple[str, ...]) -> dict[str, str]:
    """The options by their names in lower case; ConfigError for one that the codec does not have."""
    for name in options:
        if name.lower() not in known:
            hint = f"valid, nearest first: {nearest(name, known)}" if known else "remove it"
            raise ConfigError("UNKNOWN_KEY", f"value_format {codec} has no option `{name}`", hint)
    return {name.lower(): value for name, value in options.items()}


def read_schema_file(path: str) -> bytes:
    """The content of a schema file; ConfigError if it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as failed:
        reason = failed.strerror or str(failed)
        raise ConfigError("SCHEMA_FILE", f"the schema file `{path}` cannot be read: {reason}") from failed
