"""Test windowed queries without a JVM: push rows, step, look at results, side rows and the accounting."""

from windowpane.testing.harness import Harness, Step

__all__ = ["Harness", "Step"]
