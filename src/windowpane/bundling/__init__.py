"""The archive that executors of a cluster unpack and run: Python, windowpane and everything it needs but PySpark."""

from windowpane.bundling.bundle import LAUNCHER, Bundle, make_bundle

__all__ = ["LAUNCHER", "Bundle", "make_bundle"]
