"""Makes a graph that shows a defect as small as it goes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from tests.fuzz.graph import Graph
from tests.fuzz.oracle import NodeFailure, evaluate

Check = Callable[[Graph], bool]


def _without_attribute(graph: Graph, index: int, name: str) -> Graph:
    """Return the graph without an attribute, its values computed again.

    Raises
    ------
    NodeFailure
        If that is no legal graph.
    """
    smaller = copy.copy(graph)
    smaller.nodes = [copy.deepcopy(node) if i == index else node for i, node in enumerate(graph.nodes)]
    kept = [item for item in smaller.nodes[index].attribute if item.name != name]
    del smaller.nodes[index].attribute[:]
    smaller.nodes[index].attribute.extend(kept)
    smaller.values = evaluate(smaller)
    return smaller


def _smaller(graph: Graph) -> Iterator[Graph]:
    """Graphs that are one step smaller, the largest steps first."""
    if len(graph.outputs) > 1:
        for name in graph.outputs:
            yield graph.part([name])
    for index, node in enumerate(graph.nodes):
        if len(graph.nodes) > 1:
            kept = [item for i, item in enumerate(graph.nodes) if i != index]
            made = {name for item in kept for name in item.output}
            yield graph.part([name for name in graph.outputs if name in made], kept)
        inner = [name for name in node.output if name and name not in graph.outputs]
        if len(graph.nodes) > 1 and inner:
            yield graph.part(inner)
    if graph.symbolic:
        fixed = graph.part(graph.outputs)
        fixed.symbolic = False
        yield fixed
    for name in graph.inputs:
        moved = graph.part(graph.outputs)
        moved.inputs = [item for item in moved.inputs if item != name]
        moved.constants = [*moved.constants, name]
        if len(moved.inputs):
            yield moved
    for index, node in enumerate(graph.nodes):
        for attribute in node.attribute:
            try:
                yield _without_attribute(graph, index, attribute.name)
            except NodeFailure:
                continue


def reduce(graph: Graph, check: Check, attempts: int = 300) -> Graph:
    """Return a graph that `check` still holds for, and none that is one step smaller does, within `attempts` checks."""
    while attempts > 0:
        for candidate in _smaller(graph):
            attempts -= 1
            if attempts <= 0:
                break
            if candidate.nodes and candidate.outputs and check(candidate):
                graph = candidate
                break
        else:
            break
    return graph
