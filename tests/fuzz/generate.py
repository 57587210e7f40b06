"""Random graphs."""

from __future__ import annotations

import numpy as np
from refactor_graph import supported_ops

from tests.fuzz.graph import Draft, Graph, Reject, schema
from tests.fuzz.operators import GENERATORS
from tests.fuzz.operators.networks import NETWORK_MOTIFS
from tests.fuzz.oracle import reads

OPSETS = (7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28)
NETWORKS = 0.03
"""Part of the graphs that are whole networks."""
_COMMON = (13, 17, 18, 21)
"""Operator sets that exporters write most."""


def usable(opset: int, only: frozenset[str] = frozenset()) -> list[str]:
    """Return the operators and motifs that may be used in an operator set."""
    native = {item.name for item in supported_ops() if item.domain == "ai.onnx" and item.supports(opset)}
    names = [name for name in GENERATORS if name.startswith("*") or (name in native and schema(name, opset))]
    return [name for name in names if not only or name in only]


_USABLE: dict[tuple[int, frozenset[str]], list[str]] = {}


def supported() -> set[str]:
    """Return the operators of the default domain that the library has in any version."""
    return {item.name for item in supported_ops() if item.domain == "ai.onnx"}


def generate(seed: int, index: int, only: frozenset[str] = frozenset(), networks: float = NETWORKS) -> Graph:
    """Return graph number `index` of a seed; the same for the same library and `onnx`.

    Parameters
    ----------
    seed, index
        Two numbers.
    only
        The operators that may occur; all if there are none.
    networks
        Part of the graphs that are whole networks.
    """
    random = np.random.default_rng([seed, index])
    opset = int(random.choice(_COMMON if random.random() < 0.5 else OPSETS))
    if (opset, only) not in _USABLE:
        _USABLE[opset, only] = usable(opset, only)
    is_network = only <= NETWORK_MOTIFS if only else bool(random.random() < networks)
    draft = Draft(random, opset, is_network=is_network)
    names = [name for name in _USABLE[opset, only] if (name in NETWORK_MOTIFS) == is_network]
    wanted = 1 if is_network else draft.integer(1, 8)
    attempts = 0
    while len(draft.graph.nodes) < wanted and attempts < 12 * wanted and names:
        attempts += 1
        name = names[int(random.integers(len(names)))]
        leaves = len(draft.graph.inputs), len(draft.graph.constants), set(draft.graph.values)
        nodes = len(draft.graph.nodes)
        try:
            GENERATORS[name](draft, name)
        except Reject:
            if len(draft.graph.nodes) == nodes:
                _forget(draft.graph, *leaves)
    _finish(draft)
    return draft.graph


def _forget(graph: Graph, inputs: int, constants: int, values: set[str]) -> None:
    """Remove the leaves of an attempt that came to nothing."""
    del graph.inputs[inputs:], graph.constants[constants:]
    for name in graph.values.keys() - values:
        del graph.values[name]


def _finish(draft: Draft) -> None:
    """Choose outputs: every end, and now and then a tensor in the middle."""
    graph = draft.graph
    made = [name for node in graph.nodes for name in node.output]
    used = {name for node in graph.nodes for name in reads(node)}
    graph.outputs = [name for name in made if name not in used or draft.chance(0.1)]
    graph.symbolic = draft.chance(0.9 if graph.symbolic else 0.3)
    graph.prune()
    if graph.symbolic and draft.chance(0.5):
        axes = [(name, axis) for name in graph.inputs for axis in range(np.ndim(graph.values[name]))]
        graph.fixed = frozenset(item for item in axes if draft.chance(0.5))
    graph.shared = graph.symbolic and draft.chance(0.3)
