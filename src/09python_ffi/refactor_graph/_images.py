"""Pictures for the operator ImageDecoder, read by Pillow where it is installed; called by the native core."""

from __future__ import annotations

import io
from importlib.util import find_spec
from typing import Any

import numpy as np

_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}


def missing() -> str:
    """Return what must be installed before pictures can be decoded, "" if nothing."""
    return "" if find_spec("PIL") else 'it needs the package "pillow", which is not installed'


def decode(file: bytes, pixel_format: str) -> np.ndarray[Any, np.dtype[np.uint8]] | str:
    """Return the pixels [rows, columns, channels] of a picture, or why there are none."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(file)) as image:
            mode = _MODES[pixel_format]
            pixels = np.asarray(image if image.mode == mode else image.convert(mode), np.uint8)
    except (OSError, ValueError, SyntaxError, EOFError, MemoryError, Image.DecompressionBombError) as error:
        return str(error) or type(error).__name__
    if pixel_format == "Grayscale":
        return pixels[:, :, None]
    return np.ascontiguousarray(pixels[:, :, ::-1]) if pixel_format == "BGR" else pixels
