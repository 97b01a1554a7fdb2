"""The stages by which a query takes rows of an input that others read too, or joins the results of such queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from windowpane.core import columns as c
from windowpane.plan import physical
from windowpane.plan.chaining import ChainCompiler, of_branch
from windowpane.plan.context import PlanContext
from windowpane.plan.node import PlanNode
from windowpane.plan.placement import Placement, place_copies
from windowpane.plan.shared_input import KEPT, PREFIX, Leaf
from windowpane.plan.stages import AnyStage, DedupeStage, LeafStage, MeetingStage, ResultStage, SideStage, TimeStage
from windowpane.plan.traversal import walk_own
from windowpane.sql import SessionFacts


@dataclass(frozen=True)
class SideResults:
    """The results of a query that is a side of a join."""

    stage: ResultStage
    types: Mapping[str, str | None]
    """Of the columns of its window, by their internal names."""
    plan_id: str
    behind_us: int
    """How far results may be behind the watermark of their query."""


@dataclass(frozen=True, kw_only=True)
class TakenRows:
    """What stands between the input, or the queries below, and the window or join of a query."""

    time: TimeStage
    project: physical.PhysicalProject
    aliases: Mapping[str, str]
    context: PlanContext
    session: SessionFacts
    name: str
    account: str
    dedupe: physical.PhysicalDedupe | None = None
    slack_us: int = 0
    """As of DedupeStage."""

    def stages(self, below: Sequence[SideResults], leaves: list[Leaf]) -> list[AnyStage]:
        """`leaves` are those of all queries; what this one takes of the input is added."""
        union, relation = self.project.child, self.context.bound.relation
        if not relation.joins_results:
            return [self.leaf(self.name, union, leaves)]
        assert isinstance(union, physical.PhysicalUnion)
        join, results, stages, names = relation.stream_join, iter(below), list[AnyStage](), list[str]()
        for number, branch in enumerate(union.branches, 1):
            assert isinstance(branch, physical.PhysicalBranch)
            name = f"{self.name}.{number if join is None else ('left', 'right')[number - 1]}"
            if any(isinstance(node, physical.PhysicalResults) for node in walk_own(branch)):
                stages.append(self.side(name, next(results), branch))
            else:
                stages.append(self.leaf(name, branch, leaves))
                stages += self.compared(name, number - 1)
            names.append(stages[-1].name)
        if join is None:
            return [*stages, *self.united(names)]
        placement = Placement(join.keys, labels=join.labels)
        return [*stages, MeetingStage(self.name, tuple(names), placement=placement, account=self.account)]

    def compared(self, leaf: str, number: int) -> list[DedupeStage]:
        """The stage that takes out copies of a stream's rows, before these meet results or rows of another stream."""
        names = self.dedupe.sides[number] if self.dedupe is not None and self.dedupe.sides else ()
        if self.dedupe is None or not names:
            return []
        uses = tuple(use for use in self.dedupe.keys if use.name in names)
        join = self.context.bound.relation.stream_join
        texts = {column.name: column.expr.text for column in self.project.columns}
        known = {texts.get(use.column, "") for use in uses}
        apart = join is None or any(pair[number].text not in known for pair in join.equalities)
        return [
            DedupeStage(
                f"{leaf}.dedupe", (leaf,), keys=self.time.keys, compared=uses, within_us=self.dedupe.within_us,
                slack_us=self.slack_us, routed_by=() if apart or join is None else join.keys,
                placement=place_copies(uses) if apart else None, account=self.account,
            )
        ]  # fmt: skip

    def united(self, names: Sequence[str]) -> list[MeetingStage]:
        """The branches of a UNION ALL: those of the first two meet, then each further one meets them. The window says
        where.
        """
        stages, last = list[MeetingStage](), names[0]
        for number, name in enumerate(names[1:], 2):
            is_last = number == len(names)
            own = self.name if is_last else f"{self.name}.to_{number}"
            ordered = self.time.ordered if is_last else None
            stages.append(MeetingStage(own, (last, name), placement=Placement(), ordered=ordered, account=self.account))
            last = own
        return stages

    def leaf(self, name: str, source: PlanNode, leaves: list[Leaf]) -> LeafStage:
        """Rows of the input. Where WHERE has no column, all are kept."""
        project, number = self.project, len(leaves)
        prefix = f"{PREFIX}{number}"
        crossing = [column.name for column in project.columns if column.name != project.where]
        columns = {c.KEEP: f"{prefix}{KEPT}", **{column: f"{prefix}{column}" for column in crossing}}
        columns |= {alias: f"{prefix}{column}" for alias, column in self.aliases.items() if column in crossing}
        timed = {each.name: getattr(self.time, each.name) for each in fields(TimeStage)}
        named = {"name": name, "inputs": ("input",), "account": self.account}
        stage = LeafStage(**{**timed, **named}, number=number, columns=tuple(columns.items()))
        leaves.append(Leaf(stage, source, project.columns, project.where, project.original))
        return stage

    def side(self, name: str, results: SideResults, branch: physical.PhysicalBranch) -> SideStage:
        """Results as rows of a join, with the columns that those of the other side have."""
        crossing = {column.name for column in self.project.columns}
        aliases = {alias: column for alias, column in self.aliases.items() if column in crossing}
        compiler, projected = ChainCompiler(self.context, self.session), of_branch(self.project, branch)
        return SideStage(
            name,
            results.stage.inputs,
            keys=self.time.keys,
            rows=compiler.rows(results.stage, results.types, projected, aliases, results.plan_id),
            behind_us=results.behind_us,
            ordered=False,
            late_rule="row",
            ticks_for=(),
            same=(),
            session=self.session,
            account=self.account,
        )
