"""Time zones by their IANA names: the rules of each, from the package tzdata.

The database of the machine is not used. It may differ between machines, and some have none.
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib.resources import files

import tzdata

DATABASE = f"tzdata {tzdata.IANA_VERSION}"
"""The release of the IANA database that names and rules are from."""


@cache
def zone_names() -> frozenset[str]:
    """All names of the database, older aliases such as `US/Pacific` included."""
    return frozenset((files(tzdata) / "zones").read_text(encoding="utf-8").split())


@cache
def zone_rules(name: str) -> bytes:
    """The rules of a zone as a TZif file (RFC 9636). KeyError for a name that the database lacks."""
    if name not in zone_names():
        raise KeyError(name)
    return files(tzdata).joinpath("zoneinfo", *name.split("/")).read_bytes()


def near_zones(name: str) -> list[str]:
    """Up to five names that a misspelled one may mean: those of the same city first.

    >>> near_zones("berlin")[0], near_zones("Europe/Munich")[0], near_zones("US/Los_Angeles")[0]
    ('Europe/Berlin', 'Europe/Zurich', 'America/Los_Angeles')
    """
    folded = {each.lower(): each for each in sorted(zone_names())}
    city = name.lower().rpartition("/")[2].replace(" ", "_")
    same = [each for low, each in folded.items() if low.rpartition("/")[2] == city]
    close = difflib.get_close_matches(name.lower().replace(" ", "_"), folded, n=5, cutoff=0.6)
    return list(dict.fromkeys([*same, *(folded[low] for low in close)]))[:5]
