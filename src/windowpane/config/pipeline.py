"""A whole pipeline.toml, together with where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field, PrivateAttr

from windowpane.config.models import KEY_PREFIX, Options, Sink, Stream, Table, UserFunctionSettings
from windowpane.config.positions import NO_POSITIONS, Positions
from windowpane.config.secrets import redact
from windowpane.config.settings import Settings, spread_dotted
from windowpane.config.spark_settings import SparkSettings
from windowpane.config.transforms import Transform
from windowpane.config.values import Label, RelationName
from windowpane.errors import ConfigError


@dataclass(frozen=True)
class Origin:
    """Where a configuration was read: names places in errors and keeps secrets out of them."""

    file: str | None = None
    base_dir: Path = Path()
    positions: Positions = NO_POSITIONS
    fragments: frozenset[str] = frozenset()

    def error(self, code: str, message: str, hint: str | None = None, *, key: str | None = None) -> ConfigError:
        """A ConfigError at `key`, with file and line, without secrets."""
        line = self.positions.line_of(key) if key else None
        shown_hint = redact(hint, self.fragments) if hint else None
        return ConfigError(code, redact(message, self.fragments), shown_hint, file=self.file, line=line, key=key)


class PipelineConfig(Settings):
    """What a pipeline.toml says, checked."""

    streams: dict[RelationName, Stream] = Field(default_factory=dict, description="The streams that queries read.")
    tables: dict[RelationName, Table] = Field(default_factory=dict, description="Static tables to join streams with.")
    functions: dict[RelationName, UserFunctionSettings] = Field(
        default_factory=dict, description="Python functions that queries can call, by their names in SQL."
    )
    options: Options = Field(
        default_factory=Options, description="Event time, lateness, checkpoint and trigger of the pipeline."
    )
    transforms: dict[Label, Transform] = Field(default_factory=dict, description="The queries.")
    sinks: dict[Label, Sink] = Field(default_factory=dict, description="Where results and side rows are written.")
    spark: SparkSettings = Field(
        default_factory=SparkSettings, description="Master, packages and configuration of the Spark session."
    )

    _origin: Origin = PrivateAttr(default=Origin())

    @classmethod
    def spread(cls, mapping: Mapping[Any, Any]) -> dict[str, Any]:
        """Here the keys of a section are names of tables, whose dots have to be spread too."""
        data = super().spread(mapping)
        for section in ("streams", "tables", "functions", "transforms", "sinks"):
            if isinstance(data.get(section), Mapping):
                data[section] = spread_dotted(data[section])
        return data

    @property
    def file(self) -> str | None:
        """The file it was read from, as the user named it."""
        return self._origin.file

    @property
    def base_dir(self) -> Path:
        """The folder that relative paths start from."""
        return self._origin.base_dir

    def read_from(self, origin: Origin) -> Self:
        """This configuration with its origin set."""
        self._origin = origin
        for stream in self.streams.values():
            files = list(stream.codec.file_options) if stream.codec else []
            files += [f"{KEY_PREFIX}{name}" for name in stream.key_codec.file_options] if stream.key_codec else []
            for name in files:
                if name in stream.options:
                    stream.options[name] = self.resolve(str(stream.options[name]))
        return self

    def error(self, code: str, message: str, hint: str | None = None, *, key: str | None = None) -> ConfigError:
        """An error at `key` (`streams.bids.eventtime.type`) for later layers to raise, with file and line."""
        return self._origin.error(code, message, hint, key=key)

    def line_of(self, key: str) -> int | None:
        """The line at which `key` stands in the file."""
        return self._origin.positions.line_of(key)

    def redact(self, text: str) -> str:
        """`text` without values that came from the environment: for everything that is printed or logged."""
        return redact(text, self._origin.fragments)

    def resolve(self, path: str) -> str:
        """A configured path seen from the file's folder; addresses (`s3a://…`, `file:…`) stay as they are."""
        return path if "://" in path or path.startswith("file:") else str(self.base_dir / path)
