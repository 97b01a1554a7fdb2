"""Windows that rows delimit and not time: count and state windows."""

from __future__ import annotations

from dataclasses import dataclass

from windowpane.core.windows.base import WindowSpec


@dataclass(frozen=True)
class Count(WindowSpec):
    """Every `step` rows, the last `count` rows, in released order. Incomplete windows come out only at the end."""

    count: int
    step: int

    kind = "count"

    def arguments(self) -> tuple[int, ...]:
        return self.count, self.step

    def describe(self) -> str:
        return f"count({self.count}, step {self.step})"

    def words(self) -> str:
        return f"count, the last {self.count} rows at every {self.step} rows"


@dataclass(frozen=True)
class State(WindowSpec):
    """Rows from one that opens to a later one that emits, both included.

    `single`: one condition does both, the row that matches next closes the window before it and opens its own.
    """

    single: bool = False

    kind = "state"

    def describe(self) -> str:
        return "state(single)" if self.single else "state"

    def words(self) -> str:
        return "state, from one matching row to the next" if self.single else "state, from opening to emitting row"
