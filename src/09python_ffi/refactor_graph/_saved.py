"""Executors from files that `Executor.save` wrote."""

from __future__ import annotations

import os

from refactor_graph import _core
from refactor_graph._errors import InvalidInput, InvalidModel, Unsupported, quote
from refactor_graph._saved_file import read_saved
from refactor_graph.executor import Executor, check_allocator, check_max_tensor_bytes, check_threads


def load(
    path: str | os.PathLike[str],
    allocator: str = "default",
    *,
    num_threads: int = 0,
    max_tensor_bytes: int = 0,
    verify: bool = False,
    device_graphs: bool = True,
) -> Executor:
    """Return the executor of a model that `Executor.save` wrote.

    Nothing is imported, optimised or packed again, and weights are used where the file is mapped: processes that load
    the same file share them. A saved model is trusted as a program is: load only what you or someone you trust saved.
    The file must not be changed while an executor made from it lives.

    Parameters
    ----------
    path
        The file.
    allocator, num_threads, max_tensor_bytes, device_graphs
        As of `Compiler.compile`. Everything else is as it was when the model was compiled; kernels are for the
        instruction set of the machine that saved it, and run on every machine that has it.
    verify
        Compare every tensor with its checksum, which reads the whole file. The graph is always compared.

    Raises
    ------
    InvalidInput
        If the file cannot be read, and for arguments as `Compiler.compile`.
    InvalidModel
        If the file is no saved model, or damaged.
    Unsupported
        If another version saved it, or the processor lacks its instruction set.
    DeviceError
        If it was compiled for a device that is not present.
    """
    check_allocator(allocator)
    check_threads(num_threads)
    check_max_tensor_bytes(max_tensor_bytes)
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"load: expected a path, got {type(path).__name__}")
    for argument, flag in (("verify", verify), ("device_graphs", device_graphs)):
        if flag not in (True, False):
            raise InvalidInput(f"{argument}: expected True or False, got {flag!r}")
    name = quote(os.fsdecode(path), 200)
    saved = read_saved(os.fsdecode(path), name, bool(verify))
    try:
        program = _core.load_program(saved.graph, saved.tensors, num_threads, max_tensor_bytes)
    except (InvalidModel, Unsupported) as error:
        raise type(error)(f"{name}: {error}", error.problems) from None
    executor = Executor(program, allocator, num_threads)
    executor._device_graphs = bool(device_graphs)
    executor.allow_recording(bool(device_graphs))
    return executor
