"""onnxruntime's IOBinding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from refactor_graph.compat._errors import InvalidArgument
from refactor_graph.compat._values import OrtValue, OrtValueVector, require_host, view_memory

if TYPE_CHECKING:
    from refactor_graph.compat._session import InferenceSession


class IOBinding:
    """Inputs and outputs of one session that stay bound from run to run; made by `InferenceSession.io_binding`.

    Bound memory is read and written when the session runs, and has to live as long as the binding.
    """

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, OrtValue | None] = {}
        self._results: list[OrtValue] = []

    def _known(self, name: str, names: Mapping[str, Any] | set[str]) -> None:
        if name not in names:
            raise RuntimeError(f"Failed to find NodeArg with name: {name} in the def list: {', '.join(names)}")

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Bind an input to an array."""
        self._known(name, self._session._checks)
        self._inputs[name] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Bind an input to memory of the host.

        Parameters
        ----------
        name
            Name of the input.
        device_type, device_id
            "cpu", and anything.
        element_type
            A numpy type or a code of `TensorProto.DataType`.
        shape
            Sizes.
        buffer_ptr
            Address of the first element.
        """
        del device_id
        require_host(device_type, f"input {name!r}")
        self.bind_cpu_input(name, view_memory(buffer_ptr, element_type, shape))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to a value."""
        self._known(name, self._session._checks)
        self._inputs[name] = ortvalue

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Ask for an output: in new memory, or at `buffer_ptr`, which needs its type and shape; see `bind_input`."""
        del device_id
        require_host(device_type, f"output {name!r}")
        self._known(name, self._session._output_names)
        if buffer_ptr is None:
            self._outputs[name] = None
            return
        if element_type is None or shape is None:
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        self._outputs[name] = OrtValue(view_memory(buffer_ptr, element_type, shape))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Ask for an output in the memory of a value."""
        self._known(name, self._session._output_names)
        self._outputs[name] = ortvalue

    def _keep(self, outputs: Mapping[str, Any]) -> None:
        """Take the outputs of a run, writing those that have memory of their own into it."""
        results = []
        for name, target in self._outputs.items():
            made = OrtValue(outputs[name])
            if target is not None and made.is_tensor() and target.is_tensor():
                array, place = made.numpy(), target.numpy()
                if array.shape != place.shape or array.dtype != place.dtype:
                    raise InvalidArgument(
                        f"output {name!r} is {array.dtype}{list(array.shape)}, it is bound to "
                        f"{place.dtype}{list(place.shape)}"
                    )
                np.copyto(place, array)
                made = target
            results.append(made)
        self._results = results

    def get_outputs(self) -> list[OrtValue]:
        """Return the outputs of the last run in the order in which they were bound."""
        return list(self._results)

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """Return the outputs of the last run in the order in which they were bound."""
        return OrtValueVector(self._results)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Return the outputs of the last run as arrays of their own."""
        return [value.numpy().copy() if value.is_tensor() else value.numpy() for value in self._results]

    def synchronize_inputs(self) -> None:
        """Do nothing: memory of the host needs no waiting for."""

    def synchronize_outputs(self) -> None:
        """Do nothing: a run has ended when it returns."""

    def clear_binding_inputs(self) -> None:
        """Forget all inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget all outputs."""
        self._outputs.clear()
        self._results = []
