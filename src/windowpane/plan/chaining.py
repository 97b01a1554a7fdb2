"""A window over the results of another: how rows are computed from results, and on which shards the windows run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from windowpane.errors import PlanError, SqlError
from windowpane.evaluation.compared_results import HELD
from windowpane.evaluation.expressions import Computed
from windowpane.evaluation.projection import Projection
from windowpane.evaluation.result_rows import ResultRows
from windowpane.plan import physical
from windowpane.plan.comparing import ComparisonCompiler
from windowpane.plan.context import PlanContext
from windowpane.plan.evaluation import Compiler
from windowpane.plan.eventtime.harness_times import harness_times
from windowpane.plan.inputs import WHERE
from windowpane.plan.node_fields import InputColumn
from windowpane.plan.placement import Layout, Placement
from windowpane.plan.stages import AnyStage, ChainStage, ResultStage, StageGraph, WindowStage
from windowpane.sql import SessionFacts, Translated, all_of, substitute_columns
from windowpane.sql.query import PSEUDO_COLUMNS, Expr
from windowpane.sql.types import to_arrow

_WHY_ONE = "windows that read each other's results share no columns"


@dataclass(frozen=True)
class ChainCompiler:
    """Compiles what the worker computes between two windows. PlanError with the place of what it cannot compute."""

    context: PlanContext
    session: SessionFacts

    def rows(
        self,
        result: ResultStage,
        types: Mapping[str, str | None],
        project: physical.PhysicalProject,
        aliases: Mapping[str, str],
        plan_id: str,
    ) -> ResultRows:
        """`types`: of the inner window's columns by their internal names."""
        event_time = project.child if isinstance(project.child, physical.PhysicalEventTime) else None
        read = {name for column in project.columns for name in column.expr.columns}
        read |= {name for step in (event_time.steps if event_time else ()) for name in step.columns}
        outputs = [InputColumn(each.name, each.expr, "key") for each in result.outputs if each.name in read]
        known = {**PSEUDO_COLUMNS, **types}
        comparing = ComparisonCompiler(result, self._compiler, self.context)
        comparisons, known, condition = comparing.compile(known)
        having = [InputColumn(HELD, condition, "where")] if condition else []
        select = self._projection([*having, *outputs], known, HELD if having else None)
        shown = {each.name: each.expr.type for each in outputs}
        projection = self._projection(project.columns, shown, project.where)
        if event_time is not None:
            times = harness_times(event_time.steps, self.context.types, self._compiler(shown))
            projection = replace(projection, times=times, continued=False)
        used = frozenset(name for each in (*having, *outputs) for name in each.expr.columns) | comparing.used()
        return ResultRows(
            plan_id, select, used, bool(having), projection, tuple(aliases.items()), comparisons=comparisons
        )

    def _projection(
        self, columns: Sequence[InputColumn], types: Mapping[str, str | None], where: str | None
    ) -> Projection:
        found = self._compiler(types).projection(columns, where=where)
        return replace(found, carried=(), continued=True)

    def _compiler(self, types: Mapping[str, str | None]) -> Compiler:
        return _PlacedCompiler(types, self.session, self._check, context=self.context)

    def _check(self, expr: Expr, found: Translated) -> None:
        if expr.type is None or found.type != expr.type or to_arrow(expr.type) is None:
            raise refused(self.context, expr, f"only Spark knows the type of `{expr.text}`")


@dataclass(frozen=True, kw_only=True)
class _PlacedCompiler(Compiler):
    """Names the place of an expression that cannot be computed."""

    context: PlanContext

    def computed(self, expr: Expr, conditions: Sequence[str] = ()) -> Computed:
        try:
            return super().computed(expr, conditions)
        except PlanError:
            raise
        except SqlError as unsure:
            raise refused(self.context, expr, unsure.message) from None


def refused(context: PlanContext, expr: Expr, reason: str) -> PlanError:
    """Between two windows there is no Spark to compute an expression."""
    hint = "compute it before the first window or after the last one, or with other functions"
    if expr.text == "NULL":
        hint = "name its type: CAST(NULL AS STRING)"
    return context.error(
        "CHAIN_EXPRESSION", f"`{expr.text}` cannot be computed between two windows: {reason}", hint, span=expr.span
    )


def same_columns(result: ResultStage, project: physical.PhysicalProject) -> tuple[tuple[str, str], ...]:
    """Columns of the outer query's rows that are keys of the inner one, each with the name of that key."""
    keys = {key.name for key in result.keys}
    selected = {each.name: each.expr.text for each in result.outputs if each.expr.text in keys}
    plain = [(column.name, column.expr.text.strip("`")) for column in project.columns]
    return tuple((name, selected[column]) for name, column in plain if column in selected)


def place_chain(stages: StageGraph) -> StageGraph:
    """Windows of a chain that share columns are on the same shards; between others, rows are shuffled."""
    if not stages.of(ChainStage):
        return stages
    placing = _Placing(stages)
    for stage in stages.stages:
        placing.add(stage)
    return placing.placed()


_WHY_TOGETHER = "queries that are joined meet in one place"


def place_apart(stages: StageGraph) -> StageGraph:
    """Where several queries read the input, the rows of each are shuffled by what its own window or join needs."""
    changed: dict[str, AnyStage] = {}
    for stage in stages.windows:
        changed[stage.name] = replace(stage, together=Layout(Placement(why_one=_WHY_TOGETHER)))
        below = stages.by_name[stage.inputs[0]]
        if isinstance(below, ChainStage):
            changed[below.name] = replace(below, placement=stage.layout.window)
    return StageGraph(tuple(changed.get(each.name, each) for each in stages.stages))


def of_branch(project: physical.PhysicalProject, branch: physical.PhysicalBranch) -> physical.PhysicalProject:
    """The input projection over what one branch of it reads."""
    values = dict(branch.projection)
    wheres = [column.expr for column in project.columns if column.name == project.where]
    where = all_of([*([branch.where] if branch.where else []), *(_over(each, values) for each in wheres)])
    columns = [InputColumn(WHERE, where, "where")] if where is not None else []
    for column in project.columns:
        if column.name != project.where:
            under = _over(column.under, values) if column.under else None
            columns.append(replace(column, expr=_over(column.expr, values), under=under))
    return replace(project, child=branch.child, columns=tuple(columns), where=WHERE if where is not None else None)


def _over(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    name = expr.text.strip("`")
    return values[name] if expr.columns == (name,) and name in values else substitute_columns(expr, values)


class _Placing:
    """Groups of windows, from the first to the last, that can be on the same shards."""

    def __init__(self, stages: StageGraph) -> None:
        self.stages = stages
        self.groups: list[list[tuple[WindowStage, Placement]]] = []
        self.chains: dict[str, ChainStage] = {}

    def add(self, stage: AnyStage) -> None:
        if isinstance(stage, ChainStage):
            self.chains[stage.name] = stage
        if not isinstance(stage, WindowStage):
            return
        chain = self.stages.by_name[stage.inputs[0]]
        if not isinstance(chain, ChainStage):
            self.groups.append([(stage, stage.layout.window)])
            return
        moved = self._joined(stage, chain)
        if moved is None:
            self.groups.append([(stage, stage.layout.window)])
        else:
            self.groups[-1] = moved

    def _joined(self, stage: WindowStage, chain: ChainStage) -> list[tuple[WindowStage, Placement]] | None:
        """The last group with another window in it; None if that has to be on other shards."""
        if chain.rows.compares:
            return None
        group = self.groups[-1]
        below, own = group[-1][1], stage.layout.window
        if not below.route_by:
            return [*group, (stage, replace(below, labels=()))]
        if own.broadcast:
            return None
        use = {**{key.name: key.name for key in stage.keys}, **dict(self._columns(stage))}
        same = {name: key for name, key in chain.same if key in below.route_by}
        shared = tuple((name, same[use.get(name, name)]) for name in own.route_by if use.get(name, name) in same)
        if not shared:
            return None
        narrowed, wanted = list[tuple[WindowStage, Placement]](), [key for _, key in shared]
        for window, placement in reversed(group):
            narrowed.insert(0, (window, _only(placement, wanted)))
            wanted = self._below(window, wanted)
        return [*narrowed, (stage, _only(own, [name for name, _ in shared]))]

    def _columns(self, stage: WindowStage) -> Sequence[tuple[str, str]]:
        """The keys of a window's groups, each with the column of the rows that it is."""
        return [(use.name, use.column) for use in stage.aggregation.keys] if stage.aggregation else []

    def _below(self, stage: WindowStage, names: Sequence[str]) -> list[str]:
        """The keys of the window below that some columns of a window's rows are."""
        chain, use = self.chains.get(stage.inputs[0]), dict(self._columns(stage))
        same = dict(chain.same) if chain is not None else {}
        return [same[use.get(name, name)] for name in names if use.get(name, name) in same]

    def placed(self) -> StageGraph:
        together = len(self.groups) == 1
        changed: dict[str, AnyStage] = {}
        for first, placement in [group[0] for group in self.groups[1:]]:
            changed[first.inputs[0]] = replace(self.chains[first.inputs[0]], placement=placement)
        for group in self.groups:
            for window, placement in group:
                layout = replace(window.layout, window=placement)
                one = layout if together and not layout.is_spread else Layout(Placement(why_one=_WHY_ONE))
                changed[window.name] = replace(window, layout=layout, together=one)
        return StageGraph(tuple(changed.get(each.name, each) for each in self.stages.stages))


def _only(placement: Placement, names: Sequence[str]) -> Placement:
    labels = dict(zip(placement.route_by, placement.labels, strict=False))
    return replace(placement, route_by=tuple(names), labels=tuple(labels.get(name, name) for name in names))
