"""Window specifications and the columnar code that assigns rows to them."""

from windowpane.core.windows.spec import Count, Hopping, Session, Sliding, State, Tumbling, WindowSpec

__all__ = ["Count", "Hopping", "Session", "Sliding", "State", "Tumbling", "WindowSpec"]
