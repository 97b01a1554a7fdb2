"""The grammar that we accept: for each syntax node the arguments that the binder reads or that reach Spark's text.

One walk over the parsed tree refuses every other node and every other argument. A construct that a new release of
sqlglot adds is therefore refused until somebody lists it here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from windowpane.sql.syntax.dialect import When

Kinds: TypeAlias = frozenset[type]

_NAME = frozenset({exp.Identifier})
_TEXT, _FLAG = frozenset({str}), frozenset({bool})

_BINARY = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor,
    exp.BitwiseLeftShift, exp.BitwiseRightShift, exp.And, exp.Or, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE,
    exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.RegexpLike, exp.Escape, exp.IntervalSpan,
    exp.Extract, exp.Dot, exp.Kwarg, exp.Filter, exp.Collate,
)  # fmt: skip
_UNARY = (
    exp.Paren, exp.Neg, exp.BitwiseNot, exp.Not, exp.Any, exp.All, exp.Where, exp.IgnoreNulls, exp.RespectNulls,
    exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentUser,
)  # fmt: skip
_OTHERS: Mapping[type[exp.Expr], tuple[str, ...]] = {
    exp.Column: ("this", "table", "db", "catalog"),
    exp.Null: (),
    exp.SessionUser: (),
    exp.Anonymous: ("this", "expressions"),
    exp.Star: ("except_",),
    exp.Concat: ("expressions",),
    exp.In: ("this", "expressions"),
    exp.Between: ("this", "low", "high"),
    exp.Tuple: ("expressions",),
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true", "false"),
    exp.Cast: ("this", "to"),
    exp.TryCast: ("this", "to", "safe"),
    exp.DataType: ("this", "expressions", "nested"),
    exp.DataTypeParam: ("this",),
    exp.ColumnDef: ("this", "kind"),
    exp.Interval: ("this", "unit"),
    exp.Trim: ("this", "expression", "position"),
    exp.Substring: ("this", "start", "length"),
    exp.Overlay: ("this", "expression", "from_", "for_"),
    exp.StrPosition: ("this", "substr"),
    exp.Bracket: ("this", "expressions"),
    exp.Lambda: ("this", "expressions"),
    exp.Alias: ("this", "alias"),
    exp.Distinct: ("expressions",),
    exp.HexString: ("this",),
    exp.AtTimeZone: ("this", "zone"),
    exp.WithinGroup: ("this", "expression"),
    exp.Window: ("this", "partition_by", "order", "spec", "over"),
}
_LEAVES: Mapping[type[exp.Expr], tuple[str, ...]] = {
    exp.Identifier: ("this", "quoted"),
    exp.Literal: ("this", "is_string"),
    exp.Boolean: ("this",),
    exp.Var: ("this",),
}
_SCALAR: Mapping[type[exp.Expr], tuple[str, ...]] = {
    **dict.fromkeys(_BINARY, ("this", "expression")),
    **dict.fromkeys(_UNARY, ("this",)),
    **dict.fromkeys((exp.Like, exp.ILike), ("this", "expression", "negate")),
    **_OTHERS,
    **_LEAVES,
}
EXPRESSION: Kinds = frozenset(_SCALAR) | frozenset({str, bool, exp.DType})
"""Nodes that an expression may contain. The binder checks contexts that allow less."""

_SETS: Kinds = frozenset({exp.Rollup, exp.Cube, exp.GroupingSets})
_NARROWED: Mapping[tuple[type[exp.Expr], str], Kinds] = {
    (exp.Alias, "alias"): _NAME,
    (exp.Filter, "expression"): frozenset({exp.Where}),
    (exp.WithinGroup, "this"): frozenset({exp.Anonymous}),
    (exp.WithinGroup, "expression"): frozenset({exp.Order}),
    (exp.Window, "this"): frozenset({exp.Anonymous, exp.Filter, exp.IgnoreNulls, exp.RespectNulls}),
    (exp.Window, "order"): frozenset({When, exp.Order}),
    (exp.Window, "spec"): frozenset({exp.WindowSpec}),
    (exp.Window, "over"): _TEXT,
    (exp.Column, "this"): frozenset({exp.Identifier, exp.Star}),
    (exp.Column, "table"): _NAME,
    (exp.Column, "db"): _NAME,
    (exp.Column, "catalog"): _NAME,
}
READ: Mapping[type[exp.Expr], Mapping[str, Kinds]] = {
    exp.Select: {
        "distinct": frozenset({exp.Distinct}),
        "expressions": EXPRESSION | frozenset({exp.Aliases}),
        "laterals": frozenset({exp.Lateral}),
        "from_": frozenset({exp.From}),
        "joins": frozenset({exp.Join}),
        "where": frozenset({exp.Where}),
        "group": frozenset({exp.Group}),
        "having": frozenset({exp.Having}),
        "qualify": frozenset({exp.Qualify}),
        "order": frozenset({exp.Order}),
        "limit": frozenset({exp.Limit}),
    },
    exp.From: {"this": frozenset({exp.Table})},
    exp.Table: {"this": _NAME, "alias": frozenset({exp.TableAlias})},
    exp.TableAlias: {"this": _NAME, "columns": _NAME},
    exp.Aliases: {"this": frozenset({exp.Anonymous}), "expressions": _NAME},
    exp.Lateral: {
        "this": frozenset({exp.Anonymous}),
        "alias": frozenset({exp.TableAlias}),
        "view": _FLAG,
        "outer": _FLAG,
        "ordinality": frozenset(),
    },
    exp.Unnest: {"expressions": EXPRESSION, "alias": frozenset({exp.TableAlias}), "offset": _NAME | _FLAG},
    exp.Join: {
        "this": frozenset({exp.Table, exp.Unnest, exp.Lateral}),
        "side": _TEXT,
        "kind": _TEXT,
        "on": EXPRESSION,
        "using": _NAME,
    },
    exp.Having: {"this": EXPRESSION},
    exp.Qualify: {"this": EXPRESSION},
    exp.Group: {"expressions": EXPRESSION | _SETS, "rollup": _SETS, "cube": _SETS, "grouping_sets": _SETS},
    exp.Rollup: {"expressions": EXPRESSION},
    exp.Cube: {"expressions": EXPRESSION},
    exp.GroupingSets: {"expressions": EXPRESSION | _SETS},
    exp.Order: {"expressions": frozenset({exp.Ordered})},
    exp.Ordered: {"this": EXPRESSION - {exp.Var}, "desc": _FLAG, "nulls_first": _FLAG},
    exp.Limit: {"expression": EXPRESSION},
    exp.WindowSpec: dict.fromkeys(("kind", "start", "start_side", "end", "end_side"), EXPRESSION),
    When: {"this": EXPRESSION},
    **{kind: {name: _NARROWED.get((kind, name), EXPRESSION) for name in names} for kind, names in _SCALAR.items()},
}
"""Node class → argument → the classes that its value may have."""

FIXED: Mapping[tuple[type[exp.Expr], str], object] = {
    (exp.Div, "typed"): False,
    (exp.Div, "safe"): True,
    (exp.DPipe, "safe"): True,
    (exp.Concat, "safe"): False,
    (exp.Concat, "coalesce"): False,
    (exp.Lateral, "ordinality"): False,
}
"""Arguments that the dialect itself sets to one value, whatever the user writes."""


@dataclass(frozen=True)
class Unread:
    """A part of the tree that the grammar does not have: `value` under `argument` of `node`."""

    node: exp.Expr
    argument: str
    value: object

    @property
    def place(self) -> exp.Expr:
        """The node to point at."""
        first = self.value[0] if isinstance(self.value, list) and self.value else self.value
        return first if isinstance(first, exp.Expr) else self.node


def unread(tree: exp.Expr) -> Iterator[Unread]:
    """Everything in a tree whose root is in the grammar that would be accepted and ignored, outermost first."""
    pending = [tree]
    while pending:
        node = pending.pop()
        rules = READ[type(node)]
        for name, value in node.args.items():
            if value is None or value == [] or ((type(node), name) in FIXED and FIXED[type(node), name] is value):
                continue
            kinds = rules.get(name)
            if kinds is None:
                yield Unread(node, name, value)
                continue
            for item in value if isinstance(value, list) else [value]:
                if type(item) not in kinds:
                    yield Unread(node, name, item)
                elif isinstance(item, exp.Expr):
                    pending.append(item)
