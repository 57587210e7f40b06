"""Generators of nodes, by operator.

A generator takes the draft and the operator's name and adds one node (or, for a motif, several). It raises `Reject`
when what it rolled makes no node.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.graph import Draft

Generator = Callable[[Draft, str], object]

GENERATORS: dict[str, Generator] = {}
"""By operator of the default domain; motifs, and operators of com.microsoft, have names that begin with a star."""

IN_MOTIFS = frozenset(
    {
        *("ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt"),
        *("SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap"),
        "SplitToSequence",
    }
)
"""Operators that have no generator of their own: motifs add them."""


def operator(*names: str) -> Callable[[Generator], Generator]:
    """Register a generator for some operators."""

    def register(generator: Generator) -> Generator:
        for name in names:
            GENERATORS[name] = generator
        return generator

    return register


from tests.fuzz.operators import (  # noqa: E402 (they register themselves in what is defined above)
    contrib,
    control,
    decoders,
    elementwise,
    indexing,
    models,
    motifs,
    networks,
    products,
    quantised_networks,
    quantization,
    reductions,
    shapes,
    sizes,
    text,
    tiles,
    windows,
)

__all__ = [
    "GENERATORS",
    "IN_MOTIFS",
    "Generator",
    "contrib",
    "control",
    "decoders",
    "elementwise",
    "indexing",
    "models",
    "motifs",
    "networks",
    "operator",
    "products",
    "quantised_networks",
    "quantization",
    "reductions",
    "shapes",
    "sizes",
    "text",
    "tiles",
    "windows",
]
