"""Executors of models that leave the rank of an input open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from refactor_graph import _core
from refactor_graph._errors import InvalidInput, Unsupported
from refactor_graph._importer import Shapes
from refactor_graph.executor import Executor, check_allocator

if TYPE_CHECKING:
    from numpy.typing import NDArray


class UnrankedExecutor(Executor):
    """Compiles when the ranks of all inputs are known, once for each combination, and hands everything on.

    The base class is never initialised, because there is no program before the first shapes: every method that it
    implements is overridden here, and instances come from :meth:`make`.
    """

    @classmethod
    def make(cls, specialise: Callable[[Shapes], Executor], model: _core.Model) -> UnrankedExecutor:
        """Return an executor.

        Parameters
        ----------
        specialise
            Compiles for given shapes of the unranked inputs.
        model
            The model, for names.
        """
        self = cls.__new__(cls)  # calling the class would insist on an initialised base
        self._set_up(specialise, model)
        return self

    def _set_up(self, specialise: Callable[[Shapes], Executor], model: _core.Model) -> None:
        self._specialise = specialise
        self._ports = model.inputs
        self._results = model.outputs
        self._unranked = set(model.unranked_inputs)
        self._given: dict[str, NDArray[Any]] = {}
        self._made: dict[tuple[Any, ...], Executor] = {}
        self._executor: Executor | None = None
        self._allocator: str | None = None
        self._device: _core.Device | None = None

    @property
    def inputs(self) -> list[_core.Port]:
        """Inputs in order; the shape is None where the rank is unknown."""
        return self._ports

    @property
    def outputs(self) -> list[_core.Port]:
        """Outputs in order."""
        return self._results

    @property
    def program(self) -> _core.Program:
        """The program for the inputs that are set."""
        return self._current().program

    @property
    def num_threads(self) -> int:
        """Threads of the executor."""
        return self._current().num_threads

    @property
    def allocator(self) -> str:
        """Name of the allocator."""
        return self._current().allocator

    def _name(self, key: int | str) -> str:
        names = [port.name for port in self._ports]
        if isinstance(key, str) and key in names:
            return key
        if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(names):
            return names[key]
        raise InvalidInput(f"the model has no input {key!r}, it has: {', '.join(map(repr, names))}")

    def set_input(self, key: int | str, array: Any) -> None:
        """Set an input to a copy of `array`; its dtype is checked when the model runs."""
        name = self._name(key)
        if not isinstance(array, np.ndarray | np.generic) and not hasattr(array, "__array__"):
            raise InvalidInput(f"input {name!r}: expected a numpy array, got an object of type {type(array).__name__}")
        self._given[name] = np.array(array, order="C")
        self._executor = None

    def _current(self) -> Executor:
        """Return the executor for the inputs that are set, with these inputs."""
        if self._executor is not None:
            return self._executor
        missing = [port.name for port in self._ports if port.name not in self._given]
        if missing:
            raise InvalidInput(f"no value was set for input {', '.join(map(repr, missing))}")
        shapes = {name: self._given[name].shape for name in sorted(self._unranked)}
        ranks = tuple(len(shape) for shape in shapes.values())
        executor = self._made.get(ranks) or self._made.get(tuple(shapes.values()))
        if executor is None:
            try:
                symbols: Shapes = {name: [f"{name}:{i}" for i in range(len(s))] for name, s in shapes.items()}
                executor = self._made[ranks] = self._specialise(symbols)
            except Unsupported:  # an operator needs to know sizes: compile for these alone
                fixed: Shapes = {name: list(shape) for name, shape in shapes.items()}
                executor = self._made[tuple(shapes.values())] = self._specialise(fixed)
        if self._allocator is not None:
            executor.dispatch(self._device or executor.device, self._allocator)
        for name, array in self._given.items():
            executor.set_input(name, array)
        self._executor = executor
        return executor

    def run(self, timeout: float | None = None, token: _core.CancellationToken | None = None) -> None:
        """Compile if the ranks are new, then run; see `Executor.run`."""
        self._current().run(timeout, token)

    def get_output(self, key: int | str) -> NDArray[Any]:
        """Return an output of the last run; see `Executor.get_output`."""
        if self._executor is None:
            raise InvalidInput("the executor has not run with the inputs that are set")
        return self._executor.get_output(key)

    def __call__(
        self,
        *inputs: Mapping[str, Any] | Any,
        timeout: float | None = None,
        token: _core.CancellationToken | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Set all inputs, run, and return all outputs by name."""
        if len(inputs) == 1 and isinstance(inputs[0], dict):
            given = inputs[0]
        elif len(inputs) == len(self._ports):
            given = {port.name: array for port, array in zip(self._ports, inputs, strict=True)}
        else:
            raise InvalidInput(f"expected a dict of inputs, or {len(self._ports)} arrays; got {len(inputs)}")
        self._given.clear()
        for name, array in given.items():
            self.set_input(name, array)
        self.run(timeout, token)
        return {port.name: self.get_output(index) for index, port in enumerate(self._results)}

    def clone(self) -> Executor:
        """Return another executor with the same inputs; what was compiled is shared."""
        other = UnrankedExecutor.__new__(UnrankedExecutor)
        other.__dict__.update(self.__dict__)
        other._given = dict(self._given)
        other._made = {key: executor.clone() for key, executor in self._made.items()}
        other._executor = None
        return other

    def set_allocator(self, name: str, /) -> None:
        """Use another allocator from the next run on."""
        self._allocator = name
        self._executor = None

    def dispatch(self, device: _core.Device, allocator: str = "default") -> None:
        """Move to another device and allocator from the next run on."""
        check_allocator(allocator)
        self._device, self._allocator, self._executor = device, allocator, None

    @property
    def device(self) -> _core.Device:
        """Where the model runs."""
        return self._device or self._current().device

    def profile(self, repeats: int) -> list[tuple[str, str, str, str, float, float, float]]:
        """Time every step."""
        return self._current().profile(repeats)

    def visit(self, visit: Callable[[int, str, int, str, NDArray[Any], bool], None]) -> None:
        """Run and show every tensor."""
        self._current().visit(visit)

    def describe_plan(self) -> str:
        """One line for each step."""
        return self._current().describe_plan()

    def memory(self) -> dict[str, int]:
        """Bytes by use."""
        return self._current().memory()

    def trim(self) -> None:
        """Give memory back that the current plan does not need."""
        self._current().trim()
