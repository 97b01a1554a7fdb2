"""The graph of a pipeline: streams and tables, the transforms that read them and each other, and their sinks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from windowpane.config import PipelineConfig
from windowpane.plan.build import Plan
from windowpane.sql.query import BoundQuery

Kind: TypeAlias = Literal["stream", "table", "transform", "sink"]
_SHAPES: dict[Kind, str] = {"stream": "cds", "table": "cylinder", "transform": "box", "sink": "folder"}
_BRACKETS: dict[Kind, tuple[str, str]] = {
    "stream": ("([", "])"), "table": ("[(", ")]"), "transform": ("[", "]"), "sink": ("[/", "/]"),
}  # fmt: skip


@dataclass(frozen=True)
class GraphNode:
    """What rows come from, pass, or go to. A stream and a sink may have the same name."""

    kind: Kind
    name: str
    words: str = ""
    """What a transform does, in short."""

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.name}"

    @property
    def label(self) -> str:
        return f"{self.name}: {self.words}" if self.words else f"{self.name} ({self.kind})"


@dataclass(frozen=True)
class PipelineGraph:
    """Edges go from what is read to what reads it. Both are in the order of the file."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[GraphNode, GraphNode], ...]

    @classmethod
    def of(cls, config: PipelineConfig, plans: Sequence[Plan]) -> PipelineGraph:
        known = {plan.transform: GraphNode("transform", plan.transform, _words(plan.query)) for plan in plans}
        edges = dict[tuple[GraphNode, GraphNode], None]()
        for plan in plans:
            own = known[plan.transform]
            edges |= {(_source(config, name), own): None for name in plan.query.reads}
            edges |= {(known.get(name) or GraphNode("transform", name), own): None for name in plan.query.transforms}
            edges |= {(own, GraphNode("sink", sink)): None for sink in plan.stages.output.sinks}
        nodes = dict.fromkeys([*known.values(), *(node for edge in edges for node in edge)])
        order: tuple[Kind, ...] = ("stream", "table", "transform", "sink")
        return cls(tuple(sorted(nodes, key=lambda node: order.index(node.kind))), tuple(edges))

    @property
    def is_nested(self) -> bool:
        """Whether a transform reads another."""
        return any(read.kind == "transform" == reader.kind for read, reader in self.edges)

    def below(self, node: GraphNode) -> list[GraphNode]:
        return [reader for read, reader in self.edges if read == node]

    def tree(self) -> str:
        """Lines of text from the streams to the sinks. A node that several others lead to is described once."""
        shown = set[GraphNode]()
        roots = [node for node in self.nodes if all(node != reader for _, reader in self.edges)]
        return "\n".join(line for root in roots for line in self._lines(root, "", "", shown))

    def _lines(self, node: GraphNode, lead: str, indent: str, shown: set[GraphNode]) -> Iterator[str]:
        below = self.below(node)
        if node in shown and node.kind == "transform":
            yield f"{lead}{node.name} (see above)"
            return
        yield f"{lead}{node.label}"
        shown.add(node)
        for position, each in enumerate(below):
            corner, bar = ("└─ ", "   ") if position == len(below) - 1 else ("├─ ", "│  ")
            yield from self._lines(each, indent + corner, indent + bar, shown)

    def dot(self) -> str:
        """For Graphviz."""
        nodes = [f'  "{_quoted(each.id)}" [label="{_quoted(each.label)}", shape={_SHAPES[each.kind]}];'
                 for each in self.nodes]  # fmt: skip
        edges = [f'  "{_quoted(read.id)}" -> "{_quoted(reader.id)}";' for read, reader in self.edges]
        return "\n".join(["digraph pipeline {", "  rankdir=LR;", *nodes, *edges, "}"])

    def mermaid(self) -> str:
        """For Mermaid, which Markdown renderers draw."""
        numbers = {node: f"n{number}" for number, node in enumerate(self.nodes)}
        lines = ["flowchart LR"]
        for node in self.nodes:
            begin, end = _BRACKETS[node.kind]
            lines.append(f'  {numbers[node]}{begin}"{node.label.replace(chr(34), "#quot;")}"{end}')
        return "\n".join([*lines, *(f"  {numbers[read]} --> {numbers[reader]}" for read, reader in self.edges)])

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        nodes = [{"id": each.id, "kind": each.kind, "name": each.name, "words": each.words} for each in self.nodes]
        return {"nodes": nodes, "edges": [[read.id, reader.id] for read, reader in self.edges]}


def _source(config: PipelineConfig, name: str) -> GraphNode:
    """A stream or table, in the file's spelling."""
    tables = {table.lower(): table for table in config.tables}
    if name.lower() in tables:
        return GraphNode("table", tables[name.lower()])
    return GraphNode("stream", next((stream for stream in config.streams if stream.lower() == name.lower()), name))


def _words(query: BoundQuery) -> str:
    window = query.window
    if "" not in query.owners:
        return "of each result"
    return "each row" if window is None else window.spec.words()


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
