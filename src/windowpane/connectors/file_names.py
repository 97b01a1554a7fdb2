"""Names of the files and folders that file sinks write, for whoever writes them and whoever removes them."""

from __future__ import annotations

import re

STAGING = "_staging"
"""Names that start with an underscore are hidden from readers. Each process stages in folders of its own, so that one
that was away while another took over writes into none that is in use."""
_RUN = r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
BATCH_FILE = re.compile(rf"\.?part-(.+)-{_RUN}-(\d{{12}})-\d+\..+")
"""A file, or its checksum: whose it is, the run and the batch."""
BATCH_AND_FENCE = re.compile(r"\d{12}(?:-(\d+))?")
"""How names of staging folders end; those of earlier versions have no fence."""
STAGING_FOLDER = re.compile(rf"{STAGING}-(.+)-{_RUN}-{BATCH_AND_FENCE.pattern}")
"""Whose it is, and the run."""
