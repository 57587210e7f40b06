"""Operators on text."""

from __future__ import annotations

import numpy as np

from tests.fuzz.graph import I64, TEXT, Draft
from tests.fuzz.operators import operator

_WORDS = ("", "a", "b", "ab", "Monday", "monday", "TUESDAY", "a b  c", " x,y ", "ÄÖü", "1.5", "-7", "été\u4e2d")


def _words(draft: Draft, shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    return np.array([draft.choice(_WORDS) for _ in range(count)], TEXT).reshape(shape)


def _text(draft: Draft, ranks: tuple[int, int] = (0, 3)) -> str:
    """Return a tensor of text that is there, or a new one."""
    low, high = ranks
    found = [n for n, a in draft.graph.values.items() if getattr(a, "dtype", None) == TEXT and low <= a.ndim <= high]
    if found and draft.chance(0.6):
        return str(draft.choice(found))
    return draft.leaf(_words(draft, draft.shape(low, high, 4)))


@operator("StringConcat")
def concat(draft: Draft, op: str) -> None:
    """Two inputs that broadcast."""
    x = _text(draft)
    y = draft.leaf(_words(draft, tuple(1 if draft.chance(0.4) else size for size in draft.value(x).shape)))
    draft.add(op, [x, y] if draft.chance(0.5) else [y, x])


@operator("StringSplit")
def split(draft: Draft, op: str) -> None:
    """At white space or a delimiter."""
    delimiter = draft.choice([None, None, "a", "day", ","])
    draft.add(op, [_text(draft, (1, 2))], 2, delimiter=delimiter, maxsplit=draft.choice([None, 0, 1, 2]))


@operator("RegexFullMatch")
def match(draft: Draft, op: str) -> None:
    """A few patterns."""
    draft.add(
        op, [_text(draft)], pattern=draft.choice([r"a|b", r"[a-zA-Z]+", r".*day", r"([a-z]+ *)+", r"\-?\d(\.\d)?"])
    )


@operator("StringNormalizer")
def normalize(draft: Draft, op: str) -> None:
    """One axis, or two of which the first is 1; stop words leave."""
    shape = (1, draft.integer(1, 5)) if draft.chance(0.4) else (draft.integer(1, 5),)
    action = draft.choice([None, "NONE", "LOWER", "UPPER"])
    stop = draft.choice([None, ["a"], ["monday", "b"]])
    x = draft.leaf(_words(draft, shape))
    draft.add(op, [x], case_change_action=action, is_case_sensitive=draft.integer(0, 1), stopwords=stop)


@operator("TfIdfVectorizer")
def tf_idf(draft: Draft, op: str) -> None:
    """Pairs and single items of numbers or text, skipping some."""
    shape = (draft.integer(1, 12),) if draft.chance(0.5) else (draft.integer(1, 3), draft.integer(1, 9))
    single, pairs = draft.integer(1, 4), draft.integer(1, 4)
    if draft.chance(0.5):
        x = draft.leaf(np.asarray(draft.random.integers(0, 5, shape)).astype(draft.choice([np.int32, np.int64])))
        numbers = draft.random.permutation(5)[:single].tolist()
        found = draft.random.permutation(25)[:pairs]
        pool = {"pool_int64s": numbers + [int(i) for pair in found for i in divmod(int(pair), 5)]}
    else:
        x = draft.leaf(np.array([draft.choice("abcde") for _ in range(int(np.prod(shape)))], TEXT).reshape(shape))
        letters = ["abcde"[i] for i in draft.random.permutation(5)[:single]]
        found = draft.random.permutation(25)[:pairs]
        pool = {"pool_strings": letters + ["abcde"[i] for pair in found for i in divmod(int(pair), 5)]}
    count = single + pairs
    weights = [round(float(w), 2) for w in draft.random.uniform(0.5, 2, count)] if draft.chance(0.5) else None
    least, most = draft.choice([(1, 1), (1, 2), (2, 2)])
    draft.add(
        op,
        [x],
        mode=draft.choice(["TF", "IDF", "TFIDF"]),
        min_gram_length=least,
        max_gram_length=most,
        max_skip_count=draft.integer(0, 2),
        ngram_counts=[0, single],
        ngram_indexes=[int(i) for i in draft.random.permutation(count)],
        weights=weights,
        **pool,
    )


@operator("*text_moves")
def moves(draft: Draft, _: str) -> None:
    """What moves numbers moves text as well."""
    x = _text(draft, (1, 3))
    shape = draft.value(x).shape
    kind = draft.choice(["Transpose", "Reshape", "Gather", "Concat", "Identity", "Equal"])
    if kind == "Reshape":
        draft.add(kind, [x, draft.constant([-1])])
    elif kind == "Gather":
        draft.add(kind, [x, draft.new(I64, (2,)) if 0 in shape else draft.constant([0, -1])], axis=0)
    elif kind == "Concat":
        draft.add(kind, [x, x], axis=draft.integer(0, len(shape) - 1))
    elif kind == "Equal" and draft.opset >= 19:
        draft.add(kind, [x, draft.leaf(_words(draft, shape))])
    elif kind != "Equal":
        draft.add(kind, [x])
