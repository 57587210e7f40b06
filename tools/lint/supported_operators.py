"""Writes the page of supported operators, or checks that it is what the built package says.

Usage: python tools/lint/supported_operators.py [--update]    with the package on PYTHONPATH
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from refactor_graph import SupportedOp

PAGE = Path(__file__).resolve().parents[2] / "docs" / "supported_operators.md"

_HEAD = """\
# Supported operators

Made by `make docs` from the operator lists; `make lint` fails when it is out of date. ONNX here is version {onnx}.

**Native** operators have a form of their own in the given versions of the operator set. **Expanded** ones are replaced
by the function that ONNX defines them by, and fused again where there is a fused kernel. An operator may still be
refused for a type or an attribute value: `refactor-graph check model.onnx` names every such node with the reason. In
Python: `refactor_graph.supported_ops()`. What results are where ONNX leaves it open, or others differ, is in the
[notes](#notes).
"""

_NOTES = """\

## Notes

### Denormal numbers

While the CPU executor runs, numbers too small for the normal form count as 0 in arithmetic, operands and results alike:
those of magnitude below 1.18e-38 in f32 and bf16, 2.2e-308 in f64; processors are many times slower with them. In f32
2e-38 · 0.25 is 0, 1 / 1e-40 is inf, 1e-40 / 1e-40 is NaN, `1e-40 > 0` is false and `1e-40 == 0` true, where
onnxruntime by default gives what IEEE 754 says; a divisor that must not be 0 needs an epsilon in the normal range. What
only moves elements or their signs (Transpose, Identity, Neg) may hand such numbers on as they are. f16 is computed in
f32, where its denormals are normal numbers: they count. The thread that called has its own mode again when the run
returns, so that numpy computes as before.

### Conv

Groups of channels that are parts of a block (16 channels with AVX-512, 8 with AVX2) may be multiplied together, with
zeros for the weights between groups: an infinity or NaN in one of them becomes NaN in the others of its block.
Winograd's algorithm makes NaN of an infinity within its tile; `precision="exact"` forbids that one.

### Reshape

With `allowzero=0`, a size of 0 that the model gives as a constant, or as data, copies the input's. Of a size that is
computed of symbolic ones, 0 is a size: an axis that turns out empty stays one.

### Resize

With `coordinate_transformation_mode="align_corners"` and `scales` that give no whole number of elements, corners are
those of the exact length (`length_resized = scale · length`, not rounded), as in ONNX's reference implementation, whose
node tests demand it. onnxruntime, OpenVINO and PyTorch take the rounded size, that of the output. Models that give
`sizes` instead of `scales` mean the same everywhere.
"""
_LINKS = {("ai.onnx", name): f"[{name}](#{name.lower()})" for name in ("Conv", "Reshape", "Resize")}


def _versions(ranges: Iterable[tuple[int, int]]) -> str:
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _section(
    domain: str, newest: int, rows: list[SupportedOp], missing: list[tuple[str, str]], known: bool
) -> list[str]:
    full = len(rows) - len({row.name for row in rows} & {name for name, _ in missing})
    total = len(rows) + len({name for name, _ in missing} - {row.name for row in rows})
    count = f"{full} of {total} operators in all versions up to {newest}." if known else f"{total} operators."
    lines = [f"\n## {domain}\n", f"{count}\n"]
    if rows:
        lines += ["| operator | native | expanded |", "|---|---|---|"]
        names = [_LINKS.get((domain, row.name), row.name) for row in rows]
        lines += [
            f"| {name} | {_versions(row.native)} | {_versions(row.expanded)} |"
            for name, row in zip(names, rows, strict=True)
        ]
    if missing:
        lines.append(f"\nNot supported: {', '.join(f'{name} ({versions})' for name, versions in missing)}.")
    return lines


def _missing(domain: str, rows: list[SupportedOp]) -> list[tuple[str, str]]:
    """Return operators of ONNX and the versions in which they cannot run, deprecated ones left out."""
    from refactor_graph._operators import merged, schema_ranges

    found = {row.name: row for row in rows}
    result = []
    for (schema_domain, name), schemas in sorted(schema_ranges().items()):
        if (schema_domain or "ai.onnx") != domain:
            continue
        spans = [span for schema, span in schemas if not schema.deprecated]
        open_ones = [v for first, last in spans for v in range(first, last + 1)]
        if name in found:
            open_ones = [version for version in open_ones if not found[name].supports(version)]
        if open_ones:
            result.append((name, _versions(merged((version, version) for version in open_ones))))
    return result


def render() -> str:
    """Return the page."""
    import onnx
    from refactor_graph import supported_ops
    from refactor_graph._operators import newest_version, schema_ranges

    defined = {domain or "ai.onnx" for domain, _ in schema_ranges()}
    by_domain: dict[str, list[SupportedOp]] = {domain: [] for domain in defined}
    for item in supported_ops():
        by_domain.setdefault(item.domain, []).append(item)
    lines = [_HEAD.format(onnx=onnx.__version__).rstrip("\n")]
    for domain in sorted(by_domain):
        newest = newest_version("" if domain == "ai.onnx" else domain)
        rows = by_domain[domain]
        lines += _section(domain, newest, rows, _missing(domain, rows), domain in defined)
    return "\n".join(lines) + "\n" + _NOTES


def main() -> int:
    """Return 1 if the page is out of date."""
    text = render()
    if "--update" in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
        print(f"error: {PAGE.name} is out of date: make docs")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
