"""The ONNX backend API: one of the familiar doors, and what the standard's own test suite drives.

>>> import refactor_graph.backend as backend
>>> outputs = backend.prepare(model, "CPU").run([array])  # doctest: +SKIP

Source: `onnx.backend.base`, https://github.com/onnx/onnx/blob/main/docs/ImplementingAnOnnxBackend.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper
from onnx.backend import base

from refactor_graph import _core
from refactor_graph._errors import DeviceError, InvalidInput
from refactor_graph._load import ModelSource
from refactor_graph.executor import Executor
from refactor_graph.onnx import check, make_compiler

__all__ = ["Backend", "BackendRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]

_KINDS = {"CPU": ("cpu", "cpu"), "CUDA": ("cuda", "nvidia")}
"""Target and kind of device by ONNX's name of a device type."""

_TEST_OPTIONS = frozenset({"rtol", "atol"})
"""Keywords that `BackendTest` hands to `prepare` though they are meant for its own comparison."""


def _find_device(device: str) -> tuple[str, _core.Device]:
    """Return target and device of a text like "CPU" or "CUDA:1"."""
    kind, colon, ordinal = device.partition(":") if isinstance(device, str) else (device, "", "")
    if kind not in _KINDS or (colon and not ordinal.isdigit()):
        raise InvalidInput(f"device: expected CPU, CUDA or CUDA:<number>, got {device!r}")
    target, core_kind = _KINDS[kind]
    return target, _core.find_device(core_kind, int(ordinal or 0))


class BackendRep(base.BackendRep):
    """A model that is ready to run; made by :func:`prepare`."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        """The executor, for everything that the backend API has no name for."""
        self._outputs = base.namedtupledict("Outputs", [port.name for port in executor.outputs])

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model once.

        Parameters
        ----------
        inputs
            Values of all inputs that are no initializers: a list or tuple in the order of the graph, a dict by name, or
            the one value of a model with one input. A value is an array, a list (a sequence) or None (an empty
            optional).
        **kwargs
            `timeout` and `token`, as of `Executor.run`.

        Returns
        -------
        tuple
            The outputs in order, also by name: `outputs["y"]`.

        Raises
        ------
        InvalidInput
            If number, name, type or shape of an input is wrong.
        """
        values = self._by_name(inputs)
        made = self.executor(values, **kwargs)
        return self._outputs(*made.values())

    def _by_name(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            return dict(inputs)
        ports = self.executor.inputs
        values = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        if len(values) != len(ports):
            names = ", ".join(port.name for port in ports)
            raise InvalidInput(f"{len(values)} inputs are given, the model has {len(ports)}: {names}")
        pairs = zip(ports, values, strict=True)
        return {port.name: np.asarray(v) if isinstance(v, bool | int | float) else v for port, v in pairs}


class Backend(base.Backend):
    """What `onnx.backend.test.BackendTest` takes; the functions of this module are its methods."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Return whether `device` is present and nothing in the model keeps it from running there."""
        del kwargs
        if not cls.supports_device(device):
            return False
        return not check(model, target=_find_device(device)[0])

    @classmethod
    def prepare(cls, model: ModelSource, device: str = "CPU", **kwargs: Any) -> BackendRep:
        """Compile `model`.

        Parameters
        ----------
        model
            A `ModelProto`, a path or bytes.
        device
            "CPU", "CUDA" or "CUDA:<number>".
        **kwargs
            Keywords of `Compiler.compile`, `base_dir_or_uri` of `make_compiler`.

        Raises
        ------
        InvalidInput, InvalidModel, Unsupported, DeviceError
            As `make_compiler` and `Compiler.compile`.
        """
        target, place = _find_device(device)
        options = {name: value for name, value in kwargs.items() if name not in _TEST_OPTIONS}
        compiler = make_compiler(model, options.pop("base_dir_or_uri", None))
        executor = compiler.compile(target, **options)
        if place.ordinal:
            executor.dispatch(place, options.get("allocator", "default"))
        return BackendRep(executor)

    @classmethod
    def run_model(cls, model: ModelSource, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Compile and run once; arguments as of `prepare` and `BackendRep.run`."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one operator.

        Parameters
        ----------
        node
            The node; inputs with an empty name are omitted.
        inputs
            Values of the inputs that are not omitted, as of `BackendRep.run`.
        device
            As of `prepare`.
        outputs_info
            Type and shape of each output; checked against what the operator makes.
        **kwargs
            `opset_version` (by default the newest), and those of `prepare`.
        """
        version = kwargs.pop("opset_version", None)
        names = list(dict.fromkeys(name for name in node.input if name))
        values = inputs if isinstance(inputs, list | tuple) else [inputs]
        if isinstance(inputs, Mapping):
            values = [inputs[name] for name in names]
        if len(values) != len(names):
            raise InvalidInput(f"{len(values)} inputs are given, the node has {len(names)}: {', '.join(names)}")
        arrays = [np.asarray(value) if isinstance(value, bool | int | float) else value for value in values]
        ports = [helper.make_value_info(n, _type_of(n, value)) for n, value in zip(names, arrays, strict=True)]
        results = [ValueInfoProto(name=name) for name in node.output if name]
        for port, (dtype, shape) in zip(results, outputs_info or (), strict=False):
            port.type.CopyFrom(helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape))
        graph = helper.make_graph([node], "node", ports, results)
        opsets = [helper.make_opsetid("", version or _core.newest_opset())]
        if node.domain not in ("", "ai.onnx"):
            opsets = [helper.make_opsetid("", _core.newest_opset()), helper.make_opsetid(node.domain, version or 1)]
        ir_version = helper.find_min_ir_version_for(opsets, ignore_unknown=True)
        model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
        outputs = cls.prepare(model, device, **kwargs).run(dict(zip(names, arrays, strict=True)))
        for port, value, info in zip(results, outputs, outputs_info or (), strict=False):
            if tuple(value.shape) != tuple(info[1]):
                raise InvalidInput(f"output {port.name!r}: outputs_info says {tuple(info[1])}, it is {value.shape}")
        return outputs

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether models can run on `device` in this process."""
        try:
            _find_device(device)
        except (DeviceError, InvalidInput):
            return False
        return True


def _type_of(name: str, value: Any) -> TypeProto:
    """ONNX type of an input value."""
    if isinstance(value, list):
        element = _type_of(name, value[0]) if value else helper.make_tensor_type_proto(TensorProto.FLOAT, None)
        return helper.make_sequence_type_proto(element)
    if not isinstance(value, np.ndarray | np.generic):
        raise InvalidInput(f"input {name!r}: expected an array or a list, got {type(value).__name__}")
    dtype = TensorProto.STRING if value.dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_type_proto(dtype, value.shape)


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
