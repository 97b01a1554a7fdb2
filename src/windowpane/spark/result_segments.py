"""The result side in Spark SQL, a segment at a time: expressions row by row, then the operation over several rows."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from windowpane.plan.guard import errors_where
from windowpane.plan.over_sql import OverSql
from windowpane.plan.stages import ResultStage
from windowpane.spark.envelope import Envelope, risky_texts
from windowpane.spark.result_json import REASON
from windowpane.spark.result_order import in_order
from windowpane.sql.result_steps import Over, Segment, Sort


@dataclass(frozen=True)
class SegmentFrame:
    """A segment over `given`. `evaluated` has columns for values and reasons of the expressions that may fail."""

    given: DataFrame
    segment: Segment
    safe: Envelope

    @classmethod
    def over(cls, given: DataFrame, segment: Segment, risky: frozenset[str]) -> SegmentFrame:
        """`risky`: the expressions that may fail."""
        exprs = [*([segment.condition] if segment.condition else []), *segment.exprs]
        return cls(given, segment, Envelope.over(given, exprs, _types(given), risky))

    @staticmethod
    def risky(given: DataFrame, segment: Segment) -> frozenset[str]:
        exprs = [*([segment.condition] if segment.condition else []), *segment.exprs]
        return risky_texts(given, exprs, _types(given))

    @property
    def evaluated(self) -> DataFrame:
        return self.safe.frame

    @property
    def error(self) -> str | None:
        """SQL of why a row cannot be computed; None if all can be."""
        return errors_where(self.segment.condition, self.segment.exprs, self.safe)

    def refused(self) -> DataFrame | None:
        """The rows that cannot be computed, with REASON; None if all can be."""
        error = self.error
        if error is None:
            return None
        return self.evaluated.selectExpr("*", f"{error} AS {REASON}").where(f"{REASON} IS NOT NULL")

    def kept(self) -> DataFrame:
        """The rows that can be computed and for which the condition holds."""
        error, condition = self.error, self.segment.condition
        good = self.evaluated if error is None else self.evaluated.where(f"({error}) IS NULL")
        return good if condition is None else good.where(self.safe.value(condition))

    def applied(self, stage: ResultStage) -> DataFrame:
        """The rows after the operation, with all columns."""
        match self.segment.operation:
            case Sort() as sort:
                return in_order(self.kept(), sort, self.safe, stage)
            case Over() as over:
                return self._with_functions(over, stage)
        return self.kept()

    def _with_functions(self, step: Over, stage: ResultStage) -> DataFrame:
        """The given columns and those of the window functions."""
        names = {expr.text: f"_value_{number}" for number, expr in enumerate(self.segment.exprs)}
        values = [f"{self.safe.value(expr)} AS {names[expr.text]}" for expr in self.segment.exprs]
        given, known = self.given.columns, self.kept().selectExpr(*self.given.columns, *values)
        ties = stage.order_by_keys(given)
        sql = OverSql("spark", stage.window_columns(given), ties, lambda expr: names[expr.text])
        numbered = known.selectExpr("*", *sql.positions(step.calls))
        return numbered.selectExpr(*given, *sql.columns(step.calls))

    def projected(self, stage: ResultStage, more: list[str]) -> DataFrame:
        """The columns of SELECT and `more`, for the last segment."""
        columns = [f"{self.safe.value(output.expr)} AS `{output.name}`" for output in stage.outputs]
        return self.applied(stage).selectExpr(*columns, *more)


def _types(frame: DataFrame) -> dict[str, str | None]:
    return {field.name: field.dataType.simpleString().upper() for field in frame.schema}
