"""The front door for ONNX models.

>>> from refactor_graph.onnx import make_compiler
>>> executor = make_compiler("model.onnx").compile("cpu")  # doctest: +SKIP
>>> outputs = executor({"input": array})  # doctest: +SKIP
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from refactor_graph import _core
from refactor_graph._check import Problem, find_problems
from refactor_graph._core import find_device
from refactor_graph._errors import InvalidInput, InvalidModel, Unsupported
from refactor_graph._importer import import_model
from refactor_graph._load import LoadedModel, ModelSource, load_model
from refactor_graph._tuning import TuningFile, check_mode
from refactor_graph.executor import Executor, check_allocator, check_max_tensor_bytes, check_threads

__all__ = ["Compiler", "check", "find_device", "make_compiler"]

if TYPE_CHECKING:
    from refactor_graph._core import Port
    from refactor_graph._custom import CustomOp, LibraryOp

_TARGETS = {"cpu": "cpu", "cuda": "nvidia"}


def _names(argument: str, value: Iterable[str]) -> list[str]:
    """Return a list of names; raises `InvalidInput` for anything else, a single text as well."""
    if isinstance(value, str):
        raise InvalidInput(f"{argument}: expected a list of names, got the text {value!r}")
    if not isinstance(value, Iterable):
        raise InvalidInput(f"{argument}: expected a list of names, got {type(value).__name__}")
    names = list(value)
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"{argument}: expected a list of names, got one with {type(name).__name__}")
    return names


def _find_targets(target: str | Sequence[str]) -> tuple[_core.Device, bool]:
    """Find the device to compile for, and whether the host may help; every target must be known and present."""
    names = [target] if isinstance(target, str) else _names("target", target)
    if not names:
        raise InvalidInput(f"target: the list is empty, expected some of: {', '.join(_TARGETS)}")
    devices = []
    for name in names:
        kind, colon, ordinal = name.partition(":")
        if kind not in _TARGETS or (colon and not ordinal.isdecimal()):
            known = f"{', '.join(_TARGETS)}, or one of them with a number: cuda:1"
            raise InvalidInput(f"unknown target {name!r}, expected one of: {known}")
        devices.append(find_device(_TARGETS[kind], int(ordinal or 0)))
    return devices[0], any(device.kind == "cpu" for device in devices[1:])


class Compiler:
    """A model that was read and checked; made by :func:`make_compiler`."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        try:
            self._model = import_model(loaded)
        except (InvalidModel, Unsupported) as error:
            raise type(error)(f"{loaded.name}: {error}", error.problems) from None

    @property
    def inputs(self) -> list[Port]:
        """Inputs in order; sizes are numbers or symbols, the shape is None where the rank is unknown."""
        return self._model.inputs

    @property
    def outputs(self) -> list[Port]:
        """Outputs in order, as inferred."""
        return self._model.outputs

    @property
    def variables(self) -> list[str]:
        """Names of the symbols that have no value yet; they stay dynamic unless substituted."""
        return self._model.variables

    @property
    def metadata(self) -> dict[str, str]:
        """The model's `metadata_props`."""
        return {item.key: item.value for item in self._loaded.proto.metadata_props}

    def substitute(self, name: str, value: int) -> None:
        """Give a symbol of the inputs a fixed value.

        Raises
        ------
        InvalidInput
            If the model has no such symbol, or the value is no size.
        InvalidModel
            If the model contradicts the value.
        """
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise InvalidInput(f"substitute: expected an int for {name!r}, got {type(value).__name__}")
        if not isinstance(name, str):
            raise InvalidInput(f"substitute: expected the name of a symbol, got {type(name).__name__}")
        number = operator.index(value)
        if not 0 <= number <= _MAX_SIZE:
            raise InvalidInput(f"substitute: expected a size from 0 to 2^63 - 1 for {name!r}, got {number}")
        self._model.substitute(name, number)

    def check(self, target: str | Sequence[str] = "cpu") -> list[str]:
        """Compile without keeping the result; returns all reasons why `target` cannot run the model, empty if none."""
        try:
            device, host_too = _find_targets(target)
            self._model.compile(device.kind, [], 1, "default", [], False, host_too=host_too)
        except (InvalidModel, Unsupported) as error:
            return list(error.problems)
        return []

    def compile(
        self,
        target: str | Sequence[str] = "cpu",
        allocator: str = "default",
        passes: Sequence[str] = (),
        *,
        num_threads: int = 0,
        precision: str = "default",
        weights: str = "default",
        keep: Sequence[str] = (),
        verify: bool = False,
        max_tensor_bytes: int = 0,
        tune: str = "none",
        keep_f32: Sequence[str] = (),
        device_graphs: bool = True,
    ) -> Executor:
        """Optimise the model and return an executor.

        The compiler stays usable. What depends on more than sizes (the rank of an input that the model leaves open,
        axes that are an input) is compiled when a run knows it, once for each case.

        Parameters
        ----------
        target
            "cpu", "cuda", "cuda:1", or `["cuda", "cpu"]`: nodes that the GPU has no kernel for run on the host, with
            copies where values cross; the report of `cut_by_device` (see `Executor.dbg`) names them with the reasons.
            "cuda" alone refuses them. A target that is not there is an error, never replaced.
        allocator
            "default" (offsets planned ahead), or "plain", "mru", "bestfit", "compact".
        passes
            Nothing is the default pipeline; "-name" removes a pass, "-all" starts from none, "name" adds one. The names
            are those of `refactor_graph.pass_names`.
        num_threads
            Threads of the executor; 0: as many as the process may use.
        precision
            "default" or "f32": as the model says. "exact": no algorithm that changes the error bound of a sum (no
            Winograd, no Strassen, no products in parts of bf16, see docs/adr/0012 and 0026). "tf32": products and
            convolutions of f32 may round their operands to 11 bits on a GPU. "f16", "bf16": on a GPU tensors of f32 are
            computed in that type; sums, inputs and outputs of the model stay f32. On a CPU with AVX512-BF16 "bf16"
            rounds the operands of products, convolutions, attention and recurrent layers alone (two thirds of the time
            of "default", or half, with AMX a third; errors are some tenths of a per cent); f16 is no faster there and
            rounds nothing, and neither do other CPUs: the report of the pass `round_operands` tells. "fp8": as "bf16",
            and where it is faster both operands of products by constant weights become f8e4m3fn, with one scale each,
            that of the activations found as they come; needs a GPU of compute capability 8.9. "int8": both operands of
            products by constant weights (not of convolutions) are rounded to 8 bits with a scale for each block of up
            to 128 elements, activations as they come, so that nothing is calibrated; weights that the model packs in
            blocks (MatMulNBits) meet rounded activations whatever accuracy it asks for. Errors are one to some per
            cent; CPU only, and without VNNI just for weights of 4 bits: the report of the pass `round_products` tells
            what stays f32 and why.
        keep_f32
            Names of nodes that "f16", "bf16", "fp8" and "int8" leave in f32 (`refactor_graph.precision.find_keep`
            finds them). The name of a node that is replaced by the body of a function stands for all nodes in that.
        device_graphs
            Record the work of a GPU when a plan runs the second time with the same addresses (a CUDA graph), and
            repeat it by one call from then on. `Executor.dbg` tells what is recorded, or why not.
        weights
            What constant right-hand sides of matrix products are stored as; they are widened to the type of the other
            operand, and sums stay f32. "default": as the model stores them (f16 or bf16 that it casts to f32 stays
            small, and so do integers of 2 to 8 bits that it dequantises; on a GPU f32 for halves); "f32", "f16", "bf16"
            (each weight rounded to nearest), or "int8", on a GPU also "f8e4m3fn" and "f8e5m2", with a scale for each
            output channel; "int4" with one for each 32 weights, also with `precision="int8"`. Products of few rows, as
            in decoding, are as fast as their weights are small. The reports of the passes `store_weights` and
            `round_products` (int4) tell the error: about 1 % of the norm of normally distributed weights, of int4 8 %.
        keep
            Names of intermediate tensors that every pass leaves in place.
        verify
            Check the graph after every pass.
        max_tensor_bytes
            A run that would compute a larger tensor raises OutOfMemory before it starts; 0: a quarter of the host's
            memory.
        tune
            How kernels are chosen where several compute a node. "none": by estimates. "quick": the fastest when
            measured, which takes some milliseconds for each new case and is kept in `$REFACTOR_GRAPH_CACHE` (else the
            user's cache folder) for the next process. "cached": as measured before, else by estimates. Only what has
            fixed sizes is measured: :meth:`substitute` the symbols of the inputs first.

        Raises
        ------
        InvalidInput
            For an unknown target, allocator, pass, precision, type of weights or tuning mode; lists what there is. For
            a tensor of `keep` or a node of `keep_f32` that the model does not have, and for arguments of another type.
            If symbols are left that measuring needs.
        Unsupported
            Naming every node that no kernel accepts, with all reasons; if the target does not multiply in "fp8" or
            "int8".
        DeviceError
            If a target is not present: says what is missing.
        """
        check_allocator(allocator)
        passes, keep, keep_f32 = _names("passes", passes), _names("keep", keep), _names("keep_f32", keep_f32)
        for argument, name in (("precision", precision), ("weights", weights)):
            if not isinstance(name, str):
                raise InvalidInput(f"{argument}: expected a name, got {type(name).__name__}")
        for argument, flag in (("verify", verify), ("device_graphs", device_graphs)):
            if flag not in (True, False):
                raise InvalidInput(f"{argument}: expected True or False, got {flag!r}")
        check_threads(num_threads)
        check_max_tensor_bytes(max_tensor_bytes)
        check_mode(tune)
        if tune == "quick" and self.variables:
            raise InvalidInput(f'tune="quick" measures fixed sizes; substitute {", ".join(self.variables)} first')
        device, host_too = _find_targets(target)
        tuning = None if tune == "none" else TuningFile()

        def compile_for(kind: str) -> _core.Program:
            program = self._model.compile(
                kind,
                passes,
                num_threads,
                precision,
                keep,
                bool(verify),
                max_tensor_bytes,
                tuning.table if tuning else None,
                tune == "quick",
                weights,
                host_too and kind != "cpu",
                keep_f32,
            )
            if tuning:
                tuning.save()
            return program

        executor = Executor(compile_for(device.kind), allocator, num_threads)
        if device.ordinal:
            executor.dispatch(device, allocator)
        executor._compile_for = compile_for
        executor._device_graphs = bool(device_graphs)
        executor.allow_recording(bool(device_graphs))
        return executor


_MAX_SIZE = 2**63 - 1


def make_compiler(
    model: ModelSource,
    base_dir_or_uri: str | os.PathLike[str] | None = None,
    *,
    custom_ops: Sequence[CustomOp | LibraryOp] = (),
) -> Compiler:
    """Read and check an ONNX model.

    Parameters
    ----------
    model
        A path, the bytes of a model, or an `onnx.ModelProto`. Neither a file nor its external data may be changed or
        truncated while the compiler or an executor made from it lives: weights are mapped, not copied.
    base_dir_or_uri
        Directory of external data, as a path or `file://` URI; by default the model's own directory.
    custom_ops
        Operators of your own for this model alone; they come before those of `refactor_graph.register_op`.

    Raises
    ------
    InvalidInput
        If the model cannot be read.
    InvalidModel
        If it breaks its specification; lists every problem that was found.
    Unsupported
        If it is legal but something in it is not supported; lists all of it.
    """
    loaded = load_model(model, base_dir_or_uri)
    loaded.custom_ops = custom_ops
    return Compiler(loaded)


def check(
    model: ModelSource,
    base_dir_or_uri: str | os.PathLike[str] | None = None,
    target: str | Sequence[str] = "cpu",
    *,
    custom_ops: Sequence[CustomOp | LibraryOp] = (),
) -> list[Problem]:
    """Return every reason why a model cannot run on `target`, empty if it can.

    All problems of all stages are found at once: a node that fails hides no problem of other nodes. Arguments are as of
    `make_compiler` and `Compiler.compile`.

    Raises
    ------
    InvalidInput
        If the model cannot be read, or `target` is unknown.
    DeviceError
        If the target is not present.
    """
    device, host_too = _find_targets(target)
    try:
        loaded = load_model(model, base_dir_or_uri)
    except InvalidModel as error:
        return [Problem("invalid", text) for text in error.problems]
    loaded.custom_ops = custom_ops
    return find_problems(
        loaded,
        target if isinstance(target, str) else ", ".join(target),
        lambda native: native.compile(device.kind, [], 1, "default", [], False, host_too=host_too),
    )
