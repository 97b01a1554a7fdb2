"""Sources and sinks: how streams are opened, and where results and side rows go."""
