"""Spark expressions as DuckDB text for the columnar scan and the harness: the same value, the same type, or refused.

Every node is looked up in the table of signatures with the types of its arguments. What is not in the table is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from windowpane.core import user_functions
from windowpane.core.user_functions import UserFunction
from windowpane.errors import SqlError
from windowpane.sql.functions import words
from windowpane.sql.literals import duration_literal, like_pattern, number_literal, time_literal
from windowpane.sql.scalar import is_try_cast, read_expression
from windowpane.sql.signatures import LITERAL, NULL, TABLE, WRITTEN, find_signature
from windowpane.sql.signatures.model import DUCKDB_TYPES, Signature, cast_to, duckdb_type, let, raising
from windowpane.sql.syntax.parse import guarded
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.types import FRACTIONAL, INTEGRAL, fields_of, type_name

_OPERATORS = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%", exp.Div: "/", exp.IntDiv: "div", exp.EQ: "=",
    exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>", exp.DPipe: "||",
}  # fmt: skip
_MAY_MIX = frozenset(["+", "-", "*", "%", "/", "=", "<>", "<", "<=", ">", ">=", "<=>"])
_TRIED = ("try_add", "try_subtract", "try_multiply")
_DIVISOR_FIRST = ("/", "%", "div", "mod", "pmod")
_ALL_EVALUATED = ("<=>", "coalesce", "nvl", "ifnull", "greatest", "least", "array")
_CHOICES = ("coalesce", "nvl", "ifnull", "nvl2", "greatest", "least", "array")
# Parts of nodes that the translation reads. A node with any other part means something more, and is refused.
_READ = words(
    "this expression expressions low high ifs default true false to safe unit start length table db catalog quoted",
    "is_string negate",
)


@dataclass(frozen=True)
class SessionFacts:
    """What the session says that changes the value of expressions."""

    utc: bool = True
    """Its time zone is UTC."""
    ansi: bool = True

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> SessionFacts:
        """By Spark's settings; windowpane's own are UTC and ANSI mode."""
        zone = settings.get("spark.sql.session.timeZone") or "UTC"
        ansi = settings.get("spark.sql.ansi.enabled") or "true"
        return cls(zone in ("UTC", "Etc/UTC", "GMT", "Z"), ansi.lower() == "true")

    def hold_in(self, session: SessionFacts) -> bool:
        """Whether expressions that were translated for these facts have the same values in another session."""
        return (session.utc or not self.utc) and (session.ansi or not self.ansi)


@dataclass(frozen=True)
class Translated:
    """DuckDB's text of an expression, its type in Spark, and whether it can fail on some row."""

    text: str
    type: str
    fails: bool = False
    number: str | None = None
    """The number, where the expression is one that is written out."""
    literal: bool = False
    written: str | None = None
    """The text, where the expression is one that is written out."""
    slow: bool = False
    """It is evaluated value by value, which is too slow for the columnar scan."""
    tried: bool = False
    """It is a try_add, try_subtract or try_multiply."""
    constant: bool = False
    """No column is looked at. DuckDB may compute such a value once, outside of TRY, so it must not fail."""


def translate_expression(
    expr_text: str, types: Mapping[str, str | None], session: SessionFacts | None = None
) -> Translated:
    """`expr_text` over columns of `types`; SqlError UNSUPPORTED_IN_HARNESS where equality with Spark is not proven.

    The text raises an error for a row where Spark does.
    """
    translator = _Translator(expr_text, types, session or SessionFacts())
    return guarded(expr_text, lambda: translator.typed(read_expression(expr_text)))


def to_duckdb(expr_text: str, types: Mapping[str, str | None]) -> str:
    """The text alone."""
    return translate_expression(expr_text, types).text


class _Translator:
    def __init__(self, expr_text: str, types: Mapping[str, str | None], session: SessionFacts) -> None:
        self.source, self.types, self.session = SourceText(expr_text, []), types, session

    def refuse(self, node: exp.Expr, why: str = "") -> SqlError:
        message = f"`{node.sql('spark')}` cannot be evaluated without Spark" + (f": {why}" if why else "")
        hint = "run the test with `windowpane test --spark`, or use functions that docs/testing.md lists"
        return SqlError("UNSUPPORTED_IN_HARNESS", message, hint, sql=self.source.sql, span=self.source.span(node))

    def typed(self, node: exp.Expr | None) -> Translated:
        if node is None:
            return Translated("NULL", NULL, constant=True)
        if any(value and name not in _READ for name, value in node.args.items()):
            raise self.refuse(node)
        if type(node) in _OPERATORS and isinstance(node, exp.Binary):
            return self.use(node, _OPERATORS[type(node)], [self.typed(node.left), self.typed(node.right)])
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise self.refuse(node)
        found: Translated = method(node)
        return found

    def use(self, node: exp.Expr, name: str, args: Sequence[Translated]) -> Translated:
        """A function or operator by its signature."""
        args = _mixed(args) if name in _MAY_MIX else _chosen(args) if name in _CHOICES else args
        signature = self.signature(node, name, args)
        if all(arg.constant for arg in args) and (signature.fails or "TRY(" in signature.template):
            return self.constant(node, name, args, signature)
        if name in ("+", "-", "*") and any(arg.tried for arg in args):
            raise self.refuse(node, "Spark merges try_ functions with the operators around them")
        if signature.safe_args and any(arg.fails for arg in args):
            raise self.refuse(node, "an argument can fail and is not evaluated for every row")
        text = self.unless_null(node, name, args, signature.template.format(*(arg.text for arg in args)))
        fails, constant = signature.fails or any(arg.fails for arg in args), all(arg.constant for arg in args)
        slow = signature.slow or any(arg.slow for arg in args)
        return Translated(text, signature.result, fails, slow=slow, constant=constant, tried=name in _TRIED)

    def constant(self, node: exp.Expr, name: str, args: Sequence[Translated], signature: Signature) -> Translated:
        """Sums of integers that are written out; anything else that might fail is refused."""
        if name in ("+", "-") and signature.result in INTEGRAL and all(arg.number for arg in args):
            left, right = (int(str(arg.number)) for arg in args)
            total = str(left + right if name == "+" else left - right)
            if number_literal(total) in (*INTEGRAL[: INTEGRAL.index(signature.result) + 1],):
                text = f"CAST('{total}' AS {duckdb_type(signature.result)})"
                return Translated(text, signature.result, number=total, literal=True, constant=True)
        if name == "abs" and args[0].number is not None and signature.result in INTEGRAL:
            return replace(args[0], text=f"abs({args[0].text})", number=args[0].number.lstrip("-"))
        if name.startswith("cast ") and signature.result in INTEGRAL and args[0].number is not None:
            kind = number_literal(args[0].number)
            if kind in INTEGRAL and _fits(args[0].number, signature.result):
                text = f"CAST('{args[0].number}' AS {duckdb_type(signature.result)})"
                return Translated(text, signature.result, number=args[0].number, literal=True, constant=True)
        raise self.refuse(node, "a constant expression can fail")

    def unless_null(self, node: exp.Expr, name: str, args: Sequence[Translated], text: str) -> str:
        """Spark does not evaluate the operands that follow a NULL, so those cannot fail there."""
        ordered = args[::-1] if name in _DIVISOR_FIRST else args
        if name in _ALL_EVALUATED or not any(arg.fails for arg in ordered[1:]):
            return text
        if len(args) != 2:
            raise self.refuse(node, "an argument can fail and is not evaluated for every row")
        return text if ordered[0].literal else f"CASE WHEN ({ordered[0].text}) IS NOT NULL THEN {text} END"

    def signature(self, node: exp.Expr, name: str, args: Sequence[Translated]) -> Signature:
        kinds = tuple(_written(arg) if at and name in WRITTEN else arg.type for at, arg in enumerate(args))
        marked = tuple(f"{LITERAL}{arg.type}" if _is_literal(name, arg) else arg.type for arg in args)
        signature = TABLE.get((name, marked)) or find_signature(name, kinds)
        if signature is None and any(arg.literal for arg in args):
            signature = TABLE.get((name, (*kinds[:1], *marked[1:]))) or TABLE.get((name, (*marked[:1], *kinds[1:])))
        if signature is None:
            raise self.refuse(node, f"of {', '.join(kinds)}" if kinds else "")
        if signature.zoned and not self.session.utc:
            raise self.refuse(node, "the session's time zone is not UTC")
        if (signature.fails or signature.ansi) and not self.session.ansi:
            raise self.refuse(node, "the session is not in ANSI mode")
        return signature

    def _column(self, node: exp.Column) -> Translated:
        name = node.parts[0].name
        kind = self.types.get(name)
        if not kind:
            raise self.refuse(node, "its type is unknown")
        found = Translated('"' + name.replace('"', '""') + '"', kind)
        for part in node.parts[1:]:
            found = self.field(node, found, part.name)
        return found

    def field(self, node: exp.Expr, owner: Translated, name: str) -> Translated:
        kind = fields_of(owner.type).get(name.lower()) if owner.type.startswith("STRUCT<") else None
        if kind is None:
            raise self.refuse(node, f"{owner.type} has no field `{name}`")
        return Translated(f"struct_extract({owner.text}, '{_escaped(name)}')", kind, owner.fails)

    def _dot(self, node: exp.Dot) -> Translated:
        if not isinstance(node.expression, exp.Identifier):
            raise self.refuse(node)
        return self.field(node, self.typed(node.this), node.expression.name)

    def _literal(self, node: exp.Literal) -> Translated:
        if node.is_string:
            if "\x00" in node.name:
                raise self.refuse(node)
            return Translated(f"'{_escaped(node.name)}'", "STRING", literal=True, written=node.name, constant=True)
        return self.number(node, node.name)

    def number(self, node: exp.Expr, text: str) -> Translated:
        kind = number_literal(text)
        if kind is None:
            raise self.refuse(node)
        typed = {"INT": "INTEGER"}.get(kind, kind)
        return Translated(f"CAST('{text}' AS {typed})", kind, number=text, literal=True, constant=True)

    def _boolean(self, node: exp.Boolean) -> Translated:
        return Translated("TRUE" if node.this else "FALSE", "BOOLEAN", constant=True)

    def _null(self, node: exp.Null) -> Translated:
        return Translated("NULL", NULL, constant=True)

    def _paren(self, node: exp.Paren) -> Translated:
        return self.typed(node.this)

    def _not(self, node: exp.Not) -> Translated:
        return self.use(node, "NOT", [self.typed(node.this)])

    def _neg(self, node: exp.Neg) -> Translated:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return self.number(node, f"-{node.this.name}")
        return self.use(node, "negative", [self.typed(node.this)])

    def _and(self, node: exp.And) -> Translated:
        return self.logic(node, "AND", "FALSE", "TRUE")

    def _or(self, node: exp.Or) -> Translated:
        return self.logic(node, "OR", "TRUE", "FALSE")

    def logic(self, node: exp.Connector, word: str, decided: str, other: str) -> Translated:
        """Spark does not look at what follows an operand that decides; DuckDB evaluates all of them."""
        args = [_typed_null(self.typed(each), "BOOLEAN") for each in node.flatten()]
        for arg in args:
            self.signature(node, word, [arg, arg])
        fails = any(arg.fails for arg in args)
        if not any(arg.fails for arg in args[1:]):
            return Translated("(" + f" {word} ".join(arg.text for arg in args) + ")", "BOOLEAN", fails)
        whens = " ".join(f"WHEN {arg.text} IS NOT DISTINCT FROM {decided} THEN {decided}" for arg in args)
        unknown = " OR ".join(f"({arg.text}) IS NULL" for arg in args)
        return Translated(f"CASE {whens} WHEN {unknown} THEN NULL ELSE {other} END", "BOOLEAN", fails)

    def _is(self, node: exp.Is) -> Translated:
        value, wanted = self.typed(node.this), node.expression
        if isinstance(wanted, exp.Null):
            return self.use(node, "IS NULL", [value])
        if isinstance(wanted, exp.Boolean):
            return self.use(node, f"IS {'TRUE' if wanted.this else 'FALSE'}", [_typed_null(value, "BOOLEAN")])
        raise self.refuse(node)

    def _in(self, node: exp.In) -> Translated:
        args = _chosen([self.typed(node.this), *(self.typed(each) for each in node.expressions)])
        if len(args) < 2:
            raise self.refuse(node)
        for arg in args[1:]:
            if arg.type != NULL:
                self.signature(node, "=", [args[0], arg])
                if arg.type != args[0].type:
                    raise self.refuse(node, f"{arg.type} among {args[0].type}")
            if arg.fails:
                raise self.refuse(node, "an argument can fail and is not evaluated for every row")
        listed = ", ".join(arg.text for arg in args[1:])
        return Translated(f"({args[0].text} IN ({listed}))", "BOOLEAN", any(arg.fails for arg in args))

    def _between(self, node: exp.Between) -> Translated:
        value, low, high = (self.typed(part) for part in (node.this, node.args["low"], node.args["high"]))
        if low.fails or high.fails:
            raise self.refuse(node, "an argument can fail and is not evaluated for every row")
        least, most = self.use(node, ">=", [value, low]), self.use(node, "<=", [value, high])
        return Translated(f"({least.text} AND {most.text})", "BOOLEAN", least.fails or most.fails)

    def _like(self, node: exp.Like) -> Translated:
        if not isinstance(node.expression, exp.Literal) or not like_pattern(node.expression.name):
            raise self.refuse(node, "the pattern must be a literal")
        name = "NOT LIKE" if node.args.get("negate") else "LIKE"
        return self.use(node, name, [self.typed(node.this), self.typed(node.expression)])

    def _regexplike(self, node: exp.RegexpLike) -> Translated:
        if node.args.get("negate"):
            raise self.refuse(node)
        return self.use(node, "RLIKE", [self.typed(node.this), self.typed(node.expression)])

    def _ilike(self, node: exp.ILike) -> Translated:
        pattern = node.expression.name if isinstance(node.expression, exp.Literal) else "\\"
        if not pattern.isascii() or not like_pattern(pattern) or node.args.get("negate"):
            raise self.refuse(node, "the pattern must be a literal")
        lowered = self.typed(exp.Anonymous(this="lower", expressions=[node.this]))
        return self.use(node, "LIKE", [lowered, self.typed(exp.Literal.string(pattern.lower()))])

    def _extract(self, node: exp.Extract) -> Translated:
        name = _FIELDS.get(node.this.name.upper())
        if name is None:
            raise self.refuse(node)
        return self.use(node, name, [self.typed(node.expression)])

    def _case(self, node: exp.Case) -> Translated:
        ifs = node.args["ifs"]
        if node.this is None:
            conditions = [_typed_null(self.typed(each.this), "BOOLEAN") for each in ifs]
        else:
            value = self.typed(node.this)
            conditions = [self.use(each, "=", [value, self.typed(each.this)]) for each in ifs]
        values = [self.typed(each.args["true"]) for each in ifs]
        return self.choice(node, "CASE", conditions, [*values, self.typed(node.args.get("default"))])

    def _if(self, node: exp.If) -> Translated:
        condition = _typed_null(self.typed(node.this), "BOOLEAN")
        values = [self.typed(node.args["true"]), self.typed(node.args.get("false"))]
        return self.choice(node, "IF", [condition], values)

    def choice(
        self, node: exp.Expr, name: str, conditions: Sequence[Translated], values: Sequence[Translated]
    ) -> Translated:
        if any(condition.type != "BOOLEAN" for condition in conditions):
            raise self.refuse(node, "a condition is not BOOLEAN")
        values = _chosen(values)
        known = [value for value in values if value.type != NULL]
        if not known:
            return Translated("NULL", NULL)
        signature = self.signature(node, name, [known[0], known[0]] if len(known) == 1 else known)
        whens = " ".join(
            f"WHEN {condition.text} THEN {value.text}" for condition, value in zip(conditions, values, strict=False)
        )
        fails = any(each.fails for each in (*conditions, *values))
        return Translated(f"CASE {whens} ELSE {values[-1].text} END", signature.result, fails)

    def _cast(self, node: exp.Cast) -> Translated:
        target = type_name(node.args["to"])
        if target is None:
            raise self.refuse(node)
        text = node.this
        if isinstance(text, exp.Literal) and text.is_string and target in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
            return self.moment(node, text.name, target)
        value = self.typed(text)
        if value.type == NULL:
            return _typed_null(value, target)
        if value.type == target:
            return value
        if value.number is not None and target == "DOUBLE":
            return Translated(
                f"CAST('{value.number}' AS DOUBLE)", "DOUBLE", number=value.number, literal=True, constant=True
            )
        word = "try_cast" if is_try_cast(node) else "cast"
        return self.use(node, f"{word} {target}", [replace(value, literal=False)])

    _trycast = _cast

    def moment(self, node: exp.Expr, text: str, target: str) -> Translated:
        shown = time_literal(text, target)
        if shown is None or (target == "TIMESTAMP" and not self.session.utc):
            raise self.refuse(node, "a time must be a complete literal, and the session's time zone must be UTC")
        return Translated(shown, target, constant=True)

    def _trim(self, node: exp.Trim) -> Translated:
        if node.args.get("position") or node.args.get("expression"):
            raise self.refuse(node)
        return self.use(node, "trim", [self.typed(node.this)])

    def _substring(self, node: exp.Substring) -> Translated:
        given = [part for part in (node.this, node.args.get("start"), node.args.get("length")) if part is not None]
        return self.use(node, "substring", [self.typed(part) for part in given])

    def _bracket(self, node: exp.Bracket) -> Translated:
        if len(node.expressions) != 1:
            raise self.refuse(node)
        return self.use(node, "[]", [self.typed(node.this), self.typed(node.expressions[0])])

    def _interval(self, node: exp.Interval) -> Translated:
        shown = duration_literal(node)
        if shown is None:
            raise self.refuse(node, "only intervals from seconds to days are supported")
        return Translated(shown, "INTERVAL", constant=True)

    def _user_call(self, node: exp.Anonymous, function: UserFunction) -> Translated:
        """A list of one value, or NULL where the function raises: then the expression fails."""
        args = [self.typed(arg) for arg in node.expressions]
        kinds = [arg.type for arg in args]
        if not all(_has_duckdb_type(kind) for kind in (*kinds, function.returns)):
            raise self.refuse(node, f"of {', '.join(kinds)}")
        types = [(kind, duckdb_type(kind)) for kind in kinds]
        called = user_functions.duckdb_name(function.name, types, duckdb_type(function.returns))
        given = ", ".join(arg.text for arg in args)
        failed = raising(function.returns, "the function has raised")
        text = let("_value", f"{called}({given})", f"CASE WHEN _value IS NULL THEN {failed} ELSE _value[1] END")
        return Translated(text, function.returns, fails=True, slow=True)

    def _anonymous(self, node: exp.Anonymous) -> Translated:
        name, args = str(node.name or node.this).lower(), list(node.expressions)
        own = user_functions.find(name)
        if own is not None:
            return self._user_call(node, own)
        if name in _CASTS and len(args) == 1:
            return self.use(node, f"cast {_CASTS[name]}", [self.typed(args[0])])
        if name == "if" and len(args) == 3:
            return self._if(exp.If(this=args[0], true=args[1], false=args[2]))
        if name in ("date_part", "datepart") and len(args) == 2 and isinstance(args[0], exp.Literal):
            return self._extract(exp.Extract(this=exp.var(args[0].name), expression=args[1]))
        if name == "date_trunc" and len(args) == 2 and isinstance(args[0], exp.Literal):
            unit = Translated("", f"'{args[0].name.upper()}'", constant=True)
            return self.use(node, name, [unit, self.typed(args[1])])
        if name in _CASES and len(args) == 1:
            return self.use(node, name, [self.typed(_within_cases(args[0]))])
        return self.use(node, name, [self.typed(arg) for arg in args])


def _has_duckdb_type(kind: str) -> bool:
    return kind != NULL and (kind in DUCKDB_TYPES or kind.startswith("DECIMAL("))


def _within_cases(node: exp.Expr) -> exp.Expr:
    """Spark's optimizer makes `lower(s)` of `lower(upper(s))`, which differs: `upper` turns ß into SS."""
    inner = node.unnest()
    named = str(inner.name or inner.this).lower() if isinstance(inner, exp.Anonymous) else ""
    return _within_cases(inner.expressions[0]) if named in _CASES and len(inner.expressions) == 1 else node


_FIELDS = {
    "YEAR": "year", "YEARS": "year", "QUARTER": "quarter", "MONTH": "month", "MONTHS": "month", "WEEK": "weekofyear",
    "DAY": "day", "DAYS": "day", "DAYOFWEEK": "dayofweek", "DOW": "dayofweek", "DOY": "dayofyear", "HOUR": "hour",
    "HOURS": "hour", "MINUTE": "minute", "MINUTES": "minute",
}  # fmt: skip
"""Functions that give the fields of EXTRACT."""
_CASES = ("upper", "ucase", "lower", "lcase")
_BOUNDED = {"repeat": 1_000, "substring": 2**31 - 1, "substr": 2**31 - 1, "date_add": 100_000, "dateadd": 100_000,
            "date_sub": 100_000}  # fmt: skip
"""How large a number that is written out may be."""
_CASTS = {"int": "INT", "bigint": "BIGINT", "smallint": "SMALLINT", "tinyint": "TINYINT", "double": "DOUBLE",
          "string": "STRING", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP"}  # fmt: skip


def _is_literal(name: str, arg: Translated) -> bool:
    """Division by a number that is written out, unless it is zero; and arguments that must be constants."""
    if name == "/":
        return arg.number is not None and float(arg.number) != 0
    if name in ("%", "mod"):
        return arg.number is not None and float(arg.number) not in (0, -1)
    if name == "pmod":
        return arg.number is not None and float(arg.number) > 0
    if name in _BOUNDED and arg.type == "INT":
        return arg.number is not None and abs(float(arg.number)) <= _BOUNDED[name]
    return arg.literal


def _written(arg: Translated) -> str:
    """An argument as it stands in signatures that depend on it: `'text'` or `=1`."""
    if arg.written is not None:
        return f"'{arg.written}'"
    return f"={arg.number}" if arg.number is not None and arg.type == "INT" else arg.type


def _fits(number: str, kind: str) -> bool:
    limit: int = 2 ** (8 * 2 ** INTEGRAL.index(kind) - 1)
    return -limit <= int(number) < limit


def _mixed(args: Sequence[Translated]) -> list[Translated]:
    """Operands as Spark mixes them: a decimal that is written out beside a double is one; a NULL has its type."""
    if any(arg.type in FRACTIONAL for arg in args):
        args = [_as_double(arg) for arg in args]
    elif any(arg.type.startswith("DECIMAL") for arg in args):
        args = [_as_decimal(arg) for arg in args]
    known = next((arg.type for arg in args if arg.type not in (NULL, "INTERVAL")), NULL)
    return [_typed_null(arg, known) for arg in args]


def _as_double(arg: Translated) -> Translated:
    if arg.number is not None and arg.type.startswith("DECIMAL"):
        return Translated(f"CAST('{arg.number}' AS DOUBLE)", "DOUBLE", number=arg.number, literal=True, constant=True)
    return arg


def _as_decimal(arg: Translated) -> Translated:
    """Spark takes as many digits for an integer that is written out as it has; what else is constant is refused."""
    if not arg.constant or arg.type not in INTEGRAL:
        return arg
    if arg.number is None or number_literal(arg.number) != arg.type:
        return replace(arg, type=f"constant {arg.type}")
    kind = f"DECIMAL({len(arg.number.lstrip('-'))},0)"
    return replace(arg, text=f"CAST('{arg.number}' AS {kind})", type=kind)


def _chosen(args: Sequence[Translated]) -> list[Translated]:
    """Values of which one is taken, in their common type: integers widen, literals beside a double become doubles."""
    kinds = {arg.type for arg in args} - {NULL}
    if kinds and kinds <= set(INTEGRAL):
        common = max(kinds, key=INTEGRAL.index)
    elif "DOUBLE" in kinds and all(kind in (*INTEGRAL, "DOUBLE") or kind.startswith("DECIMAL") for kind in kinds):
        args, common = [_as_double(arg) for arg in args], "DOUBLE"
        if any(arg.type.startswith("DECIMAL") for arg in args):
            return list(args)
    elif len(kinds) == 1:
        (common,) = kinds
    else:
        return list(args)
    return [
        _typed_null(arg, common)
        if arg.type == NULL
        else replace(arg, text=cast_to(arg.text, arg.type, common), type=common)
        for arg in args
    ]


def _typed_null(arg: Translated, kind: str) -> Translated:
    if arg.type != NULL or kind == NULL:
        return arg
    return Translated(cast_to("NULL", NULL, kind), kind, constant=True)


def _escaped(text: str) -> str:
    return text.replace("'", "''")
