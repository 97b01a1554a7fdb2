"""Functions of text. Where DuckDB knows less of Unicode than Spark, text beyond ASCII goes to a kernel of our own."""

from __future__ import annotations

from collections.abc import Iterator

from windowpane.sql.signatures.model import LITERAL, Signature

_S, _I = "STRING", f"{LITERAL}INT"
_ASCII = "CASE WHEN strlen({0}) = length({0}) THEN %s({0}) ELSE spark_%s({0}) END"


def signatures() -> Iterator[Signature]:
    for name, kernel in (("upper", "upper"), ("ucase", "upper"), ("lower", "lower"), ("lcase", "lower"),
                         ("reverse", "reverse")):  # fmt: skip
        yield Signature(name, (_S,), _S, _ASCII % (kernel, kernel))
    for name in ("length", "char_length", "character_length", "len"):
        yield Signature(name, (_S,), "INT", "CAST(length({0}) AS INTEGER)")
    for name, word in (("trim", "trim"), ("btrim", "trim"), ("ltrim", "ltrim"), ("rtrim", "rtrim")):
        yield Signature(name, (_S,), _S, f"{word}({{0}}, ' ')")
    for name, word in (("startswith", "starts_with"), ("endswith", "ends_with"), ("contains", "contains")):
        yield Signature(name, (_S, _S), "BOOLEAN", f"{word}({{0}}, {{1}})")
    yield Signature("instr", (_S, _S), "INT", "CAST(instr({0}, {1}) AS INTEGER)")
    yield Signature("locate", (_S, _S), "INT", "CAST(instr({1}, {0}) AS INTEGER)")
    yield Signature("replace", (_S, _S, _S), _S, "replace({0}, {1}, {2})")
    yield Signature("repeat", (_S, _I), _S, "repeat({0}, {1})")
    yield Signature("ascii", (_S,), "INT", "CASE WHEN {0} = '' THEN 0 ELSE unicode({0}) END")
    yield Signature("md5", (_S,), _S, "md5({0})")
    yield Signature("||", (_S, _S), _S, "({0} || {1})")
    for count in range(1, 10):
        joined = " || ".join(f"{{{number}}}" for number in range(count))
        yield Signature("concat", (_S,) * count, _S, f"({joined})")
        listed = ", ".join(f"{{{number}}}" for number in range(count + 1))
        yield Signature("concat_ws", (f"{LITERAL}STRING", *(_S,) * count), _S, f"concat_ws({listed})")
    for name in ("substring", "substr"):
        yield Signature(name, (_S, _I), _S, "substring({0}, CASE WHEN {1} = 0 THEN 1 ELSE {1} END)")
        yield Signature(
            name, (_S, _I, _I), _S, "substring({0}, CASE WHEN {1} = 0 THEN 1 ELSE {1} END, greatest({2}, 0))"
        )
    for name in ("left", "right"):
        yield Signature(name, (_S, _I), _S, f"{name}({{0}}, greatest({{1}}, 0))")
    for name in ("LIKE", "NOT LIKE"):
        yield Signature(name, (_S, f"{LITERAL}STRING"), "BOOLEAN", f"({{0}} {name} {{1}} ESCAPE '\\')")
    yield from _encoded()


def _encoded() -> Iterator[Signature]:
    yield Signature("btrim", (_S, f"{LITERAL}STRING"), _S, "trim({0}, {1})")
    yield Signature("base64", (_S,), _S, "base64(encode({0}))")
    for name in ("sha", "sha1"):
        yield Signature(name, (_S,), _S, "sha1({0})")
    for kind in ("STRING", "INT", "BIGINT"):
        yield Signature("hex", (kind,), _S, f"hex({'{0}' if kind == _S else 'CAST({0} AS BIGINT)'})")
    yield Signature("octet_length", (_S,), "INT", "CAST(strlen({0}) AS INTEGER)")
    yield Signature("bit_length", (_S,), "INT", "CAST(strlen({0}) * 8 AS INTEGER)")
    yield Signature("initcap", (_S,), _S, "spark_initcap({0})", slow=True)
