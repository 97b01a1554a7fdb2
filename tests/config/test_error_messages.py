"""Every mistake in a pipeline.toml, with the whole message a person gets. `python tests/config/test_error_messages.py`
rewrites the expectations for review.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from windowpane.config import parse_pipeline
from windowpane.errors import ConfigError

GOLDEN = Path(__file__).with_name("errors.golden")
ENVIRONMENT = {"PASSWORD": "hunter2-secret", "EMPTY": ""}


def _cases() -> dict[str, tuple[str, str]]:
    """Name to (TOML, expected message); a case is `=== name`, the TOML, `---`, the message."""
    cases = {}
    for block in GOLDEN.read_text(encoding="utf-8").split("=== ")[1:]:
        name, _, rest = block.partition("\n")
        toml, _, expected = rest.partition("\n---\n")
        cases[name] = (toml, expected.strip())
    return cases


def _message(toml: str) -> str:
    try:
        parse_pipeline(toml, base_dir=GOLDEN.parent, file="pipeline.toml", env=ENVIRONMENT)
    except ConfigError as error:
        return error.render()
    return "no error"


@pytest.mark.parametrize("name", _cases())
def test_message(name: str) -> None:
    toml, expected = _cases()[name]

    assert _message(toml) == expected


def test_no_message_shows_a_value_of_the_environment() -> None:
    assert "hunter2" not in "".join(expected for _, expected in _cases().values())


def test_every_code_has_a_golden_message() -> None:
    written = GOLDEN.read_text(encoding="utf-8")
    sources = "".join(path.read_text(encoding="utf-8") for path in _config_modules())
    # Codes of file access are shown in test_loading.py, where there are files.
    elsewhere = {"CONFIG_NOT_FOUND", "CONFIG_IS_FOLDER", "CONFIG_NOT_UTF8", "CONFIG_UNREADABLE", "FILE_EXISTS",
                 "CANNOT_WRITE", "SQL_FILE_NOT_UTF8", "SQL_FILE_UNREADABLE"}  # fmt: skip
    codes = {code for code in _codes(sources) if code not in elsewhere}

    assert {code for code in codes if f"[{code}]" not in written} == set()
    assert len(codes) > 15


def _config_modules() -> list[Path]:
    import windowpane.config  # noqa: PLC0415 -- only to find where the package is

    return list(Path(windowpane.config.__file__).parent.glob("*.py"))


def _codes(source: str) -> set[str]:
    import re  # noqa: PLC0415

    return set(re.findall(r'(?:refusal|error|_add|_problem|ConfigError)\(\s*"([A-Z0-9_]+)"', source))


if __name__ == "__main__":
    GOLDEN.write_text(
        "".join(f"=== {name}\n{toml}\n---\n{_message(toml)}\n\n" for name, (toml, _) in _cases().items()),
        encoding="utf-8",
    )
