"""Packages that only some sources, sinks, codecs and stores need, installed with an extra of windowpane."""

from __future__ import annotations

import importlib
from typing import Any

from windowpane.errors import ConfigError


def optional_module(module: str, who: str, *, extra: str, everywhere: bool = False) -> Any:
    """A module of such a package; ConfigError that names the extra if it is not installed.

    `everywhere`: workers need it too.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        package, hint = module.partition(".")[0].replace("_", "-"), f"install it: pip install 'windowpane[{extra}]'"
        hint += ", on all machines of a cluster" if everywhere else ""
        raise ConfigError("MISSING_PACKAGE", f"{who} need the package {package}", hint) from missing
