"""`[spark]`: everything that `spark-submit` takes, and what the executors of a cluster are sent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from windowpane.config.models import spark_texts
from windowpane.config.settings import Settings, refusal
from windowpane.config.submit_options import OPTIONS, SubmitOption
from windowpane.config.values import OptionMap, Text, Texts

_NEEDED_BY_THE_STATE = {
    "spark.sql.streaming.stateStore.providerClass": ("RocksDBStateStoreProvider", "state lies in RocksDB"),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": (
        "true", "a micro-batch must write what it changed, not all of the state",
    ),
}  # fmt: skip
"""Properties that only one value is possible for: the end of the value, and why."""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


class SparkSettings(Settings):
    """The Spark session."""

    master: Text | None = Field(
        default=None, description='Spark\'s master: "local[*]", "spark://host:7077", … Unset: local[*].'
    )
    app_name: Text = Field(default="windowpane", description="The application name.")
    config: OptionMap = Field(default_factory=dict, description="Spark properties.")
    packages: Texts = Field(default=(), description="Maven coordinates to fetch: group:artifact:version.")
    exclude_packages: Texts = Field(default=(), description="Dependencies not to fetch: group:artifact.")
    repositories: Texts = Field(default=(), description="Further Maven repositories to fetch packages from.")
    jars: Texts = Field(default=(), description="Jar files to load, relative to pipeline.toml.")
    py_files: Texts = Field(default=(), description="Python files and archives for the path of the workers.")
    files: Texts = Field(default=(), description="Files for the working folder of each executor.")
    archives: Texts = Field(default=(), description="Archives to unpack there: deps.tar.gz, deps.tar.gz#name.")
    proxy_user: Text | None = Field(default=None, description="The user to act as on the cluster.")
    bundle: bool | Text = Field(
        default=True,
        description="Send Python and windowpane to the executors of a cluster: true, false, or an archive's address.",
    )
    bundle_packages: Texts = Field(default=(), description="Further Python packages for the bundle.")
    functions: Texts = Field(
        default=(), description="Names of UDFs that the Spark session has and queries call. Spark's own are known."
    )

    @field_validator("config", mode="after")
    @classmethod
    def _has_a_key_of_its_own(cls, config: dict[str, Any]) -> dict[str, Any]:
        for option in OPTIONS:
            if option.key and option.property in config:
                hint = f"set `{option.key}` in [spark]"
                raise refusal("CONFLICTING_KEYS", f"`{option.property}` has a key of its own here", hint)
        return config

    @field_validator("config", mode="after")
    @classmethod
    def _can_run(cls, config: dict[str, Any]) -> dict[str, Any]:
        texts = spark_texts(config)
        for name, (needed, why) in _NEEDED_BY_THE_STATE.items():
            if not texts.get(name, needed).endswith(needed):
                raise refusal("SPARK_SETTING", f"`{name}` must be {needed}: {why}", "leave it out")
        for option in OPTIONS:
            if option.refused and texts.get(option.property, option.allowed) != option.allowed:
                raise refusal(
                    "SPARK_SETTING", f"`{option.property}`: {option.refused}",
                    "leave it out; `spark-submit --deploy-mode cluster` can start windowpane in the cluster",
                )  # fmt: skip
        return config

    @model_validator(mode="after")
    def _fits_the_bundle(self) -> Self:
        if self.bundle_packages and self.bundle is not True:
            raise refusal("CONFLICTING_KEYS", "`bundle_packages` are for a bundle that windowpane makes itself",
                          "leave out `bundle`, or name the packages when you make the archive")  # fmt: skip
        return self

    @property
    def spark_config(self) -> dict[str, str]:
        """`config` as Spark takes it."""
        return spark_texts(self.config)

    def for_submission(self, base: Path) -> dict[str, str]:
        """What `spark-submit` must know before it starts the driver. Paths are relative to `base`."""
        listed = {option.property: self._listed(option, base) for option in OPTIONS if option.is_early}
        return {name: ",".join(values) for name, values in listed.items() if values}

    def _listed(self, option: SubmitOption, base: Path) -> list[str]:
        values: tuple[str, ...] = getattr(self, option.key)
        return [absolute(path, base) for path in values] if option.has_paths else list(values)


def absolute(path: str, base: Path) -> str:
    """A path relative to pipeline.toml as Spark finds it. Addresses stay as they are."""
    return path if _ADDRESS.match(path) else str(base / path)
