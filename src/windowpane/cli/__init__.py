"""The `windowpane` command. Commands import what they need when they run, so that each starts fast."""


def main() -> None:
    """The console script."""
    from windowpane.cli.app import app  # noqa: PLC0415  `windowpane.cli` must be cheap to import

    app()
