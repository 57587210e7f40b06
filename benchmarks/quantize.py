"""Writes quantised models and models of halves, made by onnxruntime's own tools, for `run.py` to compare.

    python benchmarks/quantize.py DIR MODEL.onnx ... [--kinds u8,i8,biases,inputs,qoperator,dynamic,f16,blocks,weights]
                                  [--dim NAME=SIZE ...]

u8, i8: QuantizeLinear and DequantizeLinear around everything, activations of that type, weights of i8 with a scale for
each channel, calibrated on one random input; biases: as u8, but biases are f32, as exporters of PyTorch leave them;
inputs: as i8 in front of products and convolutions alone, nodes in front of weights included, as TensorRT wants it;
qoperator: as u8 with QLinear operators; dynamic: products whose inputs are quantised in each run; f16: tensors and
weights of f16; blocks: MatMulNBits of 4 bits, blocks of 32; weights: the same as DequantizeLinear in front of products.
A model that a tool refuses is named and left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.transformers.float16 import convert_float_to_float16
from run import file_case


class OneInput(CalibrationDataReader):  # type: ignore[misc]
    """Hands out one random input of a model."""

    def __init__(self, source: Path, sizes: dict[str, int]) -> None:
        self.left = [file_case(source, sizes).inputs(np.random.default_rng(0))]

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the input once, then None."""
        return self.left.pop() if self.left else None


PRODUCTS = ["Conv", "MatMul", "Gemm"]


def static(
    source: Path,
    target: Path,
    sizes: dict[str, int],
    activations: QuantType,
    layout: QuantFormat = QuantFormat.QDQ,
    operators: list[str] | None = None,
    **options: object,
) -> None:
    """Quantise with ranges that are known before a run."""
    quantize_static(
        str(source),
        str(target),
        OneInput(source, sizes),
        quant_format=layout,
        activation_type=activations,
        weight_type=QuantType.QInt8,
        per_channel=True,
        op_types_to_quantize=operators,
        extra_options={"ActivationSymmetric": activations == QuantType.QInt8, **options},
    )


def inputs_only(source: Path, target: Path, sizes: dict[str, int]) -> None:
    """Quantise inputs and weights of products by nodes in front of them."""
    options = {"AddQDQPairToWeight": True, "QuantizeBias": False, "DedicatedQDQPair": True}
    excluded = {"OpTypesToExcludeOutputQuantization": PRODUCTS}
    static(source, target, sizes, QuantType.QInt8, operators=PRODUCTS, **options, **excluded)


def dynamic(source: Path, target: Path, _: dict[str, int]) -> None:
    """Quantise in each run. The tool turns weights around, but not the shapes of intermediate values: without them."""
    model = onnx.load(source)
    del model.graph.value_info[:]
    quantize_dynamic(model, target, weight_type=QuantType.QInt8)


def halves(source: Path, target: Path, _: dict[str, int]) -> None:
    """Make tensors and weights f16."""
    onnx.save(convert_float_to_float16(onnx.load(source)), target)


def blocks(source: Path, target: Path, kind: QuantFormat) -> None:
    """Pack weights of products in blocks of 32 numbers of 4 bits; needs onnx-ir."""
    from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

    config = DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=True, quant_format=kind)
    quantiser = MatMulNBitsQuantizer(onnx.load(source), algo_config=config)
    quantiser.process()
    onnx.save(quantiser.model.model, target)


KINDS: dict[str, Callable[[Path, Path, dict[str, int]], None]] = {
    "u8": lambda source, target, sizes: static(source, target, sizes, QuantType.QUInt8),
    "i8": lambda source, target, sizes: static(source, target, sizes, QuantType.QInt8),
    "biases": lambda source, target, sizes: static(source, target, sizes, QuantType.QUInt8, QuantizeBias=False),
    "inputs": inputs_only,
    "qoperator": lambda source, target, sizes: static(source, target, sizes, QuantType.QUInt8, QuantFormat.QOperator),
    "dynamic": dynamic,
    "f16": halves,
    "blocks": lambda source, target, _: blocks(source, target, QuantFormat.QOperator),
    "weights": lambda source, target, _: blocks(source, target, QuantFormat.QDQ),
}


def main() -> int:
    """Return 1 if a tool refused a model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--kinds", default=",".join(KINDS), help="comma-separated")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE", help="sizes of symbols, else 1")
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"unknown kinds {', '.join(unknown)}, expected some of {', '.join(KINDS)}")
    sizes = {name: int(size) for name, size in (pair.split("=") for pair in arguments.dim)}
    arguments.folder.mkdir(parents=True, exist_ok=True)
    refused = 0
    for source in arguments.models:
        for kind in kinds:
            target = arguments.folder / f"{source.stem}_{kind}.onnx"
            try:
                KINDS[kind](source, target, sizes)
            except Exception as error:  # What the tools throw is of no common type.
                print(f"{target.name}: {type(error).__name__}: {error}", file=sys.stderr)
                refused += 1
            else:
                print(target, flush=True)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
