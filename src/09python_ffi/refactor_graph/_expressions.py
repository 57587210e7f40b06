"""Regular expressions of RE2, as Python's `re` reads them."""

from __future__ import annotations

import re
from functools import lru_cache

from refactor_graph._errors import InvalidModel

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
"""Names inside of brackets, `[[:alpha:]_]`. Source: RE2, wiki/Syntax."""

_PART = re.compile(r"\\.|\[:(\w+):\]", re.DOTALL)


@lru_cache(maxsize=256)
def compiled(pattern: str, what: str) -> re.Pattern[str]:
    r"""Return an RE2 pattern as one of `re`: classes are of ASCII, and the end of the text is called \Z, not \z.

    Raises
    ------
    InvalidModel
        If it is none; `what` names it.
    """

    def part(found: re.Match[str]) -> str:
        if found[1]:
            return _CLASSES.get(found[1], found[0])
        return r"\Z" if found[0] == r"\z" else found[0]

    try:
        return re.compile(_PART.sub(part, pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidModel(f"{what} {pattern!r} is no regular expression: {error}") from None
