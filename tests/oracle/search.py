"""How hard the search is: `ORACLE_EXAMPLES` per property, few in an ordinary run and as many as one likes by hand."""

from __future__ import annotations

import os

from hypothesis import settings

EXAMPLES = int(os.environ.get("ORACLE_EXAMPLES", "16"))


def search(share: float = 1.0) -> settings:
    """`share`: this property's part of the examples."""
    return settings(max_examples=max(1, round(EXAMPLES * share)))
