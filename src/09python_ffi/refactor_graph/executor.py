"""The executor: what `Compiler.compile` returns and what runs a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from refactor_graph import _core
from refactor_graph._errors import InvalidInput, Unsupported
from refactor_graph._profile import BenchRow, BenchTable
from refactor_graph._saved_file import save_program
from refactor_graph._trace import TraceWriter

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALLOCATORS = ("default", "plain", "mru", "bestfit", "compact")
"""Names of the allocators: "default" uses the offsets planned at compile time, the others place blocks at run time."""


def check_allocator(name: str) -> None:
    """Raise `InvalidInput` listing the allocators if `name` is none of them."""
    if name not in ALLOCATORS:
        raise InvalidInput(f"unknown allocator {name!r}, expected one of: {', '.join(ALLOCATORS)}")


_MAX_THREADS = 1024


def check_threads(number: int) -> None:
    """Raise `InvalidInput` if `number` is no number of threads; 0 stands for the default."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _MAX_THREADS:
        raise InvalidInput(f"num_threads: expected 0 to {_MAX_THREADS}, got {number!r}")


def check_max_tensor_bytes(number: int) -> None:
    """Raise `InvalidInput` if `number` is no bound of the bytes of a tensor; 0 stands for the default."""
    if not isinstance(number, int) or not 0 <= number < 1 << 63:
        raise InvalidInput(f"max_tensor_bytes: expected 0 to 2^63 - 1, got {number!r}")


class Executor(_core.Executor):
    """Runs a compiled model; made by `Compiler.compile`.

    An executor belongs to one thread at a time: a second one gets `InvalidInput`. :meth:`clone` makes another
    executor that shares the weights and may run at the same time. The GIL is released while a run is long enough to
    be worth it. After `fork` the child may go on with its executors.

    `executor(inputs)` is the short way and the fastest: `inputs` is a dict of all inputs by name (or the arrays in
    order), the result a dict of all outputs by name, but for those that :meth:`carry` names. The arrays are borrowed,
    not copied; they must not be written to by another thread during the call. The keyword arguments `timeout` and
    `token` are those of :meth:`run`.
    """

    _compile_for: Callable[[str], _core.Program] | None = None
    """Compiles the same model for another kind of device."""
    _device_graphs: bool = True

    if TYPE_CHECKING:

        @property
        def program(self) -> _core.Program:
            """The compiled program, shared with clones."""

    def set_input(self, key: int | str, array: Any) -> None:
        """Set an input to a copy of `array`: later changes of the array do not show.

        Parameters
        ----------
        key
            Number or name of the input.
        array
            A numpy array (of an ml_dtypes type for bfloat16 and the 8-, 4- and 2-bit types) or an object with
            `__dlpack__` or `__array__`. Memory order, alignment and byte order do not matter; the dtype must be the
            declared one, but the bits of a bfloat16 input may also come as uint16.

        Raises
        ------
        InvalidInput
            If there is no such input, or dtype, rank or a fixed size differ from the declared ones; names expected
            and actual.
        """
        super().set_input(key, array)

    def run(
        self,
        timeout: float | None = None,
        token: _core.CancellationToken | None = None,
        stream: int | None = None,
    ) -> None:
        """Run the model on the inputs that are set.

        Parameters
        ----------
        timeout
            Seconds after which the run stops before its next step.
        token
            Stops the run before its next step once `token.cancel()` was called, by any thread.
        stream
            On a GPU, a CUDA stream as a number (`torch.cuda.current_stream().cuda_stream`, `cupy.cuda.Stream.ptr`):
            the run starts after the work that is in it, the stream's later work starts after the run, and the call
            does not wait. What kernels find wrong in the data is then reported by the next call that waits.

        Raises
        ------
        InvalidInput
            If an input is not set, sizes contradict each other, or data is wrong (an index out of range).
        Cancelled
            If `timeout` or `token` stopped the run.
        OutOfMemory
            If the intermediate tensors do not fit.
        """
        super().run(timeout, token, stream)

    def get_output(self, key: int | str) -> NDArray[Any]:
        """Return an output of the last run.

        The array shares the executor's memory, which a later run does not overwrite as long as the array lives.

        Raises
        ------
        InvalidInput
            If there is no such output, or nothing has run yet.
        """
        return super().get_output(key)

    def set_input_blob(self, key: int | str, array: Any) -> None:
        """Set an input to a tensor where it lies, without a copy: its owner must leave it alone until the run is over.

        Parameters
        ----------
        key
            Number or name of the input.
        array
            A `DeviceArray`, anything with `__dlpack__` or `__cuda_array_interface__` (PyTorch, CuPy, JAX) in the memory
            of a GPU, contiguous in row-major order, or a numpy array. The work that its producer has under way is
            waited for on the GPU, as the protocols say.

        Raises
        ------
        InvalidInput
            As :meth:`set_input`; if the tensor is not contiguous.
        """
        super().set_input_blob(key, array)

    def carry(self, states: Mapping[int | str, int | str]) -> None:
        """Let outputs be inputs of the next run: the cache of a decoder, the state of a recurrent or streaming model.

        After every run the output is the value of the input, without a copy. `executor(inputs)` then takes such inputs
        only where they are to be replaced (the first time they have to be set), and leaves such outputs out of its
        result; :meth:`get_output` has them. An output that a node writes rows of (TensorScatter, and
        GroupQueryAttention whose cache has room for more) takes the place of its input, so that no cache is copied,
        unless an array of `get_output` still needs it. `bench` and `trace` repeat a run and do not advance. A run that
        failed may be repeated, but for one in a stream of the caller's; a clone goes its own way from here.

        Parameters
        ----------
        states
            Number or name of an output, by number or name of the input that it becomes. Replaces what an earlier call
            said; an empty one ends it.

        Raises
        ------
        InvalidInput
            If there is no such input or output, an input is named twice, or their types, ranks or fixed sizes differ.

        Examples
        --------
        >>> executor.carry({"past.0.key": "present.0.key", "past.0.value": "present.0.value"})
        >>> executor({"tokens": prompt, "past.0.key": empty, "past.0.value": empty})
        >>> executor({"tokens": next_token})
        """
        if not isinstance(states, Mapping):
            raise InvalidInput(f"carry: expected a dict of outputs and inputs, got {type(states).__name__}")
        super().carry(dict(states))

    def get_output_blob(self, key: int | str) -> _core.DeviceArray:
        """Return an output of the last run where it lies, without a copy.

        The result has `__dlpack__` and `__cuda_array_interface__`: `torch.from_dlpack(x)`, `cupy.from_dlpack(x)`. A
        later run does not overwrite it while it or a tensor made from it lives.

        Raises
        ------
        InvalidInput
            If there is no such output, or nothing has run yet.
        """
        return super().get_output_blob(key)

    def dispatch(self, device: _core.Device, allocator: str = "default") -> None:
        """Move to another device or allocator, keeping the inputs that are set.

        For a device of another kind the model is compiled again, with the options of the first time.

        Raises
        ------
        InvalidInput
            If the allocator is unknown.
        Unsupported
            If a node has no kernel for the device, with all reasons.
        """
        check_allocator(allocator)
        if not isinstance(device, _core.Device):
            raise InvalidInput(f"dispatch: expected a Device (of find_device), got {type(device).__name__}")
        if device.kind == self.device.kind:
            super().dispatch(device, allocator)
        elif self._compile_for is None:
            raise Unsupported(f"dispatch to {device.name}: the program was compiled for {self.device.name} only")
        else:
            self.retarget(self._compile_for(device.kind), device, allocator)
            self.allow_recording(self._device_graphs)

    def clone(self) -> Executor:
        """Return another executor for the same program: weights and inputs are shared, everything else is its own."""
        other = Executor(self)
        other._compile_for, other._device_graphs = self._compile_for, self._device_graphs
        return other

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the compiled model to a file, for :func:`refactor_graph.load`.

        The file holds the graph as the passes left it, the constants, and what has been packed of them so far: with
        fixed sizes all, else what the sizes of the runs until now needed. Inputs and states are not part of it. It
        has the format of safetensors, and appears under its name when it is complete. Kernels are chosen for this
        machine's instruction set (`REFACTOR_GRAPH_ISA` lowers it).

        Raises
        ------
        InvalidInput
            If the file cannot be written.
        Unsupported
            Naming every node that cannot be saved: custom operators, and those that are compiled when they run because
            data decides their types.
        """
        save_program(self.program, path)

    def bench(self, sync: bool = True, repeats: int = 10, quiet: bool = False) -> BenchTable:
        """Time every step, print a table and return it.

        Parameters
        ----------
        sync
            Wait for the device after every step. If false, the device itself takes the times of the steps, which
            then follow each other without gaps.
        repeats
            Runs; the fastest time of each step counts.
        quiet
            Do not print.
        """
        if not isinstance(repeats, int) or repeats < 1:
            raise InvalidInput(f"repeats: expected a number of at least 1, got {repeats!r}")
        table = BenchTable(BenchRow(*row) for row in self.profile(repeats, sync))
        if not quiet:
            print(table)
        return table

    def trace(self, directory: str | os.PathLike[str], file_format: str = "npy") -> int:
        """Run and write every tensor that passes through a step.

        Each tensor becomes one file. `node<N>.meta` describes step N, fields separated by tabs: the first line is
        node name and N, then comes one line for each operand: `input` or `output`, its number, name of the tensor,
        name of its file.

        Parameters
        ----------
        directory
            Where the files go; it is made if it does not exist.
        file_format
            "npy", the only one.

        Returns
        -------
        int
            Number of tensors written.
        """
        if file_format != "npy":
            raise InvalidInput(f"unknown trace format {file_format!r}, expected one of: npy")
        writer = TraceWriter(directory)
        self.visit(writer.visit)
        return writer.finish()

    def dbg(self, quiet: bool = False) -> str:
        """Print and return a description: inputs, outputs, passes, steps with kernel and placement, memory.

        Parameters
        ----------
        quiet
            Do not print.
        """
        lines = [f"inputs:  {', '.join(map(repr, self.inputs))}", f"outputs: {', '.join(map(repr, self.outputs))}"]
        lines += [f"device: {self.device.name}, threads: {self.num_threads}, allocator: {self.allocator}", "passes:"]
        lines += [f"  {item.name}: {item.changes} changes, {item.microseconds:.0f} µs" for item in self.program.passes]
        lines += [f"  {item.name}: {note}" for item in self.program.passes for note in item.notes]
        try:
            lines += ["steps: number, node, operator, kernel, operands"]
            lines += ["  " + line for line in self.describe_plan().splitlines()]
            if self.device.kind != "cpu":
                lines += ["device graphs:", *("  " + line for line in self.recording.splitlines())]
            lines += [f"memory: {self.memory()}"]
        except InvalidInput as error:
            lines += [f"  not planned yet ({error})", str(self.program)]
        text = "\n".join(lines)
        if not quiet:
            print(text)
        return text

    def __repr__(self) -> str:
        return f"<Executor {self.inputs} -> {self.outputs}>"
