"""Reads the lists in CMakeLists.txt files of layers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_CALL = re.compile(r"\b(add_layer|add_cuda_plugin|set)\s*\(([^()]*)\)", re.IGNORECASE)
_KEYWORDS = ("DEPENDS", "SOURCES", "TESTS", "BENCHES", "LIBRARIES", "PRECOMPILE")
_OPTIONS = ("SMALL",)


@dataclass
class LayerLists:
    """The arguments of add_layer and the lists that are set beside it."""

    number: str = ""
    name: str = ""
    lists: dict[str, list[str]] = field(default_factory=dict)


def parse(text: str) -> LayerLists:
    """Return the lists of a CMakeLists.txt: those of add_layer by their keyword, and variables set to source files."""
    result = LayerLists()
    text = re.sub(r"#[^\n]*", "", text)
    for match in _CALL.finditer(text):
        words = match[2].split()
        if match[1].lower() == "set":
            files = [word for word in words[1:] if re.search(r"\.(cc|cu)$", word)]
            if files:
                result.lists[words[0]] = files
            continue
        if match[1].lower() == "add_cuda_plugin":
            start = words.index("SOURCES") + 1 if "SOURCES" in words else len(words)
            result.lists[words[0]] = [word for word in words[start:] if re.search(r"\.(cc|cu)$", word)]
            continue
        result.number, result.name = words[:2]
        current = ""
        for word in words[2:]:
            if word in _KEYWORDS:
                current = word
                result.lists.setdefault(current, [])
            elif word not in _OPTIONS:
                result.lists.setdefault(current, []).append(word)
    return result
