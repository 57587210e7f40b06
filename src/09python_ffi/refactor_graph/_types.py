"""Names of element types."""

from __future__ import annotations

CORE_NAMES: tuple[str, ...] = (
    *("undefined", "f32", "u8", "i8", "u16", "i16", "i32", "i64", "string", "bool", "f16", "f64", "u32", "u64"),
    *("complex64", "complex128", "bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"),
    *("u4", "i4", "f4e2m1", "f8e8m0", "u2", "i2"),
)
"""The library's names in the order of the codes of `TensorProto.DataType`."""


def core_name(code: int) -> str:
    """Return the library's name of an element type."""
    return CORE_NAMES[code] if 0 < code < len(CORE_NAMES) else f"type {code}"


def code_of(name: str) -> int:
    """Return the code of an element type by the library's name; 0 if there is none."""
    return CORE_NAMES.index(name) if name in CORE_NAMES else 0
