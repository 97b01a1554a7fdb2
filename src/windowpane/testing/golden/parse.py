"""From the text of a golden file to what it says. Mistakes name file, line, and what was expected."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

from windowpane.errors import ConfigError, WindowpaneError, nearest
from windowpane.sql import parse_schema
from windowpane.testing.golden.expectations import parse_expected
from windowpane.testing.golden.model import VERBS, Golden, Step, StreamDeclaration, Verb
from windowpane.testing.golden.pipeline import take_pipeline
from windowpane.testing.golden.rows import BadLineError, parse_rows, to_inputs
from windowpane.testing.golden.sections import Section, split_sections
from windowpane.testing.golden.values import Instant, parse_instant
from windowpane.time import parse_duration

_DECLARED = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*:\s*(?P<schema>.+)")
_WITHOUT_ROWS: tuple[Verb, ...] = ("restart", "replay", "change")
_PUSH = re.compile(r"(?P<stream>(?!shard\b|at\b)[A-Za-z_]\w*)?\s*(shard\s+(?P<shard>\w+))?\s*(at\s+(?P<at>.+))?")


def read_golden(path: Path) -> Golden:
    """The file, or ConfigError BAD_GOLDEN with the line that cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError("FILE_NOT_UTF8", f"`{path}` is not UTF-8", "save it as UTF-8") from None
    except OSError as error:
        raise ConfigError("FILE_UNREADABLE", f"`{path}` cannot be read: {error.strerror}") from None
    return parse_golden(text, str(path))


def parse_golden(text: str, file: str) -> Golden:
    """The same for a text; `file` is only named in errors."""
    try:
        return _Parser(text, file).parse()
    except BadLineError as error:
        raise ConfigError("BAD_GOLDEN", error.message, error.hint, file=file, line=error.number) from None


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        lines = text.splitlines()
        reason = lines[0].lstrip("# ").strip() if lines and lines[0].startswith("#") else ""
        if not reason:
            hint = "start the file with `# why this must hold`"
            raise BadLineError(1, "the first line must be a comment that says what the file shows", hint)
        self._golden = Golden(file, reason, lines)
        self._sections = split_sections(lines)

    def parse(self) -> Golden:
        readers = self._readers()
        for section in self._sections:
            reader = readers.get(section.keyword)
            if reader is None:
                message = f"unknown section `{section.keyword}`"
                raise BadLineError(section.line.number, message, f"valid: {nearest(section.keyword, readers)}")
            self._check_order(section)
            reader(section)
        if not self._golden.sql:
            raise BadLineError(
                len(self._golden.lines),
                "there is no query",
                "add `query` with the SQL below it, or `pipeline FILE transform NAME`",
            )
        self._check_refusal()
        return self._golden

    def _readers(self) -> dict[str, Callable[[Section], None]]:
        declarations = {
            "stream": self._stream, "table": self._table, "options": self._options, "transform": self._transform,
            "manual": self._manual, "now": self._now, "cuttable": self._cuttable, "query": self._query,
            "pipeline": self._pipeline,
        }  # fmt: skip
        return {**declarations, **dict.fromkeys(VERBS, self._step), "expect": self._expect}

    def _check_order(self, section: Section) -> None:
        is_step = section.keyword in VERBS or section.keyword == "expect"
        if is_step and not self._golden.sql:
            raise BadLineError(section.line.number, f"`{section.keyword}` comes before the query", "put `query` first")
        if not is_step and self._golden.sql:
            hint = "the order is: stream, table, options, transform, manual, now, cuttable; query; steps"
            raise BadLineError(section.line.number, f"`{section.keyword}` comes after the query", hint)

    def _check_refusal(self) -> None:
        if self._golden.refused is not None and self._golden.steps:
            hint = "remove the steps, or the error"
            line = self._golden.steps[0].place.first
            raise BadLineError(line, "a query that must be refused has no steps", hint)

    def _declared(self, section: Section, form: str) -> tuple[str, str]:
        match = _DECLARED.fullmatch(section.rest)
        if match is None:
            raise BadLineError(section.line.number, f"`{section.line.text}` declares nothing", f"write {form}")
        try:
            parse_schema(match["schema"])
        except WindowpaneError as error:
            raise BadLineError(section.line.number, error.message, error.hint or f"write {form}") from None
        return match["name"], match["schema"]

    def _stream(self, section: Section) -> None:
        name, schema = self._declared(section, "`stream NAME: ts BIGINT, k STRING`")
        settings = {"schema": schema, **_toml(section)}
        self._golden.streams[name] = StreamDeclaration(parse_schema(schema), settings)

    def _table(self, section: Section) -> None:
        name, schema = self._declared(section, "`table NAME: id BIGINT, name STRING`, its rows below it")
        rows = to_inputs(parse_rows(section.body)[1], parse_schema(schema), None)
        self._golden.tables[name] = {"schema": schema, "rows": rows}

    def _options(self, section: Section) -> None:
        self._golden.options = _toml(section)

    def _transform(self, section: Section) -> None:
        if not section.rest:
            self._golden.transform = _toml(section)
            return
        if not re.fullmatch(r"\w+", section.rest) or "sql" not in (keys := _toml(section)):
            hint = "write `transform NAME` with `sql` and other keys below it, or `transform` for the query itself"
            raise BadLineError(section.line.number, f"`{section.line.text}` declares no transform", hint)
        self._golden.transforms[section.rest] = keys

    def _manual(self, section: Section) -> None:
        section.alone()
        if section.rest != "watermark":
            hint = "write `manual watermark`: only `watermark T` moves it"
            raise BadLineError(section.line.number, f"`{section.line.text}` is not known", hint)
        self._golden.manual = True

    def _now(self, section: Section) -> None:
        section.alone()
        self._golden.now_us = _instant(section.rest, section.line.number)

    def _cuttable(self, section: Section) -> None:
        section.alone()
        if not re.fullmatch(r"no: .+", section.rest):
            hint = "write `cuttable no: why batch boundaries are the point`"
            raise BadLineError(section.line.number, f"`{section.line.text}` is not known", hint)
        self._golden.cuttable = False

    def _query(self, section: Section) -> None:
        self._golden.sql, self._golden.query_place = self._sql(section), section.place

    def _sql(self, section: Section) -> str:
        sql = "\n".join(filter(None, [section.rest, section.text()]))
        if not sql:
            hint = f"write the SQL indented below `{section.keyword}`"
            raise BadLineError(section.line.number, "the query is empty", hint)
        return sql

    def _pipeline(self, section: Section) -> None:
        take_pipeline(self._golden, section)

    def _step(self, section: Section) -> None:
        verb = next(verb for verb in VERBS if verb == section.keyword)
        if verb not in ("push", "change"):
            section.alone()
        step = Step(verb, section.place)
        if verb == "push":
            self._read_push(section, step)
        elif verb == "change":
            step.sql = self._sql(section)
        elif verb == "watermark":
            step.at_us = _instant(section.rest, section.line.number)
        elif verb == "clock":
            step.at_us = _distance(section)
        elif section.rest:
            raise BadLineError(section.line.number, f"`{verb}` takes no arguments", f"write `{verb}` alone")
        self._check_replay(verb, section)
        self._golden.steps.append(step)

    def _check_replay(self, verb: Verb, section: Section) -> None:
        if verb == "replay" and (not self._golden.steps or self._golden.steps[-1].verb in _WITHOUT_ROWS):
            hint = "put it after push, watermark, clock or end"
            raise BadLineError(section.line.number, "`replay` has no step to run once more", hint)

    def _read_push(self, section: Section, step: Step) -> None:
        match = _PUSH.fullmatch(section.rest)
        if match is None:
            hint = "write `push [STREAM] [shard N] [at T]`"
            raise BadLineError(section.line.number, f"`{section.line.text}` is not known", hint)
        step.stream, step.shard = match["stream"], match["shard"] or "0"
        if step.stream is not None and step.stream not in self._golden.streams:
            hint = f"streams: {nearest(step.stream, self._golden.streams)}"
            raise BadLineError(section.line.number, f"there is no stream `{step.stream}`", hint)
        step.at_us = None if match["at"] is None else _instant(match["at"], section.line.number)
        step.rows = tuple(parse_rows(section.body)[1])

    def _expect(self, section: Section) -> None:
        expected, golden = parse_expected(section), self._golden
        if not golden.steps:
            if expected.subject != "error" or golden.refused is not None:
                raise BadLineError(
                    section.line.number, "only one `expect error CODE` can follow the query", "add a step"
                )
            golden.refused = expected
            return
        step = golden.steps[-1]
        if expected.subject in step.expected or step.verb in ("restart", "replay"):
            hint = "a step has each expectation once; `restart` produces nothing, and `replay` repeats the step before"
            raise BadLineError(section.line.number, f"`{section.line.text}` is not allowed here", hint)
        step.expected[expected.subject] = expected


def _toml(section: Section) -> Mapping[str, object]:
    try:
        return tomllib.loads(section.text())
    except tomllib.TOMLDecodeError as error:
        hint = "write keys as in pipeline.toml below it: eventtime.enabled = true"
        raise BadLineError(section.line.number, f"the lines below `{section.keyword}`: {error}", hint) from None


def _instant(text: str, number: int) -> int:
    instant: Instant | None = parse_instant(text.strip())
    if instant is None:
        raise BadLineError(number, f"`{text}` is not an instant", "write 10s, -1ms, 1m 30s or 2024-01-01T00:00:05Z")
    return instant.us


def _distance(section: Section) -> int:
    try:
        distance_us = parse_duration(section.rest)
    except ConfigError:
        distance_us = -1
    if distance_us < 0:
        raise BadLineError(
            section.line.number, f"`{section.line.text}` is not a step of the clock", "write `clock +5s`"
        )
    return distance_us
