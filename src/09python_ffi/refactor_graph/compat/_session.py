"""onnxruntime's InferenceSession over an executor."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from refactor_graph._core import Port, find_device
from refactor_graph._errors import Cancelled, Error, InvalidModel
from refactor_graph._load import LoadedModel, load_model
from refactor_graph.compat import _describe
from refactor_graph.compat._binding import IOBinding
from refactor_graph.compat._errors import (
    Fail,
    InvalidArgument,
    InvalidProtobuf,
    NoSuchFile,
    OnnxRuntimeError,
    translated,
    translation,
)
from refactor_graph.compat._options import GraphOptimizationLevel, ModelMetadata, NodeArg, RunOptions, SessionOptions
from refactor_graph.compat._profile import Profile
from refactor_graph.compat._providers import CUDA, Placement, Provider, place
from refactor_graph.compat._types import code_of_array, element_name, numpy_type
from refactor_graph.compat._values import OrtValue, plain
from refactor_graph.executor import Executor
from refactor_graph.onnx import Compiler

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Input:
    """What is checked of one input before a run, so that messages are those of onnxruntime."""

    def __init__(self, port: NodeArg) -> None:
        self.name = port.name
        self.optional = port.type.startswith("optional")
        names = {f"tensor({element_name(code)})": code for code in TensorProto.DataType.values() if code}
        self.code = names.get(port.type, 0)
        """Code of the element type; 0 for what is no tensor."""
        self.type = port.type
        self.dtype = numpy_type(self.code) if self.code else None
        self.sizes = tuple(size if isinstance(size, int) else None for size in port.shape)
        self.plain_dtype = self.dtype if self.code != TensorProto.STRING else None
        """Of arrays that need no more than a look at their sizes."""
        self.fixed = [(axis, size) for axis, size in enumerate(self.sizes) if size is not None]

    def check(self, value: Any) -> Any:
        """Return what the executor takes for `value`."""
        if type(value) is np.ndarray and value.dtype is self.plain_dtype and len(self.sizes) == value.ndim:
            shape = value.shape
            for axis, size in self.fixed:
                if shape[axis] != size:
                    break
            else:
                return value
        value = plain(value, self.code, self.name)
        if not isinstance(value, np.ndarray) or self.dtype is None:
            return value
        if value.dtype != self.dtype and value.dtype.newbyteorder("=") != self.dtype:
            actual = element_name(code_of_array(value))
            raise InvalidArgument(f"Unexpected input data type. Actual: (tensor({actual})) , expected: ({self.type})")
        if self.sizes:
            self._check_shape(value.shape)
        return value

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if len(shape) != len(self.sizes):
            raise InvalidArgument(
                f"Invalid rank for input: {self.name} Got: {len(shape)} Expected: {len(self.sizes)} "
                "Please fix either the inputs/outputs or the model."
            )
        wrong = [i for i, (size, want) in enumerate(zip(shape, self.sizes, strict=True)) if want not in (None, size)]
        if wrong:
            lines = "".join(f" index: {i} Got: {shape[i]} Expected: {self.sizes[i]}\n" for i in wrong)
            raise InvalidArgument(
                f"Got invalid dimensions for input: {self.name} for the following indices\n{lines}"
                " Please fix either the inputs/outputs or the model."
            )


class _Engine:
    """Executors of one program."""

    def __init__(self, executor: Executor) -> None:
        self._never_run = executor  # what is cloned may not run at the same time
        self.idle: list[Executor] = []

    def take(self) -> Executor:
        """Return an executor that nobody uses; it goes back to `idle`."""
        try:
            return self.idle.pop()
        except IndexError:
            return self._never_run.clone()


class InferenceSession:
    """Runs a model; any number of threads may run the same session at the same time.

    Parameters
    ----------
    path_or_bytes
        A path or the bytes of a model.
    sess_options
        See `SessionOptions`.
    providers
        Names, or names with options, in order of preference; the CPU if there are none. See `place`.
    provider_options
        Options of each provider.
    **kwargs
        Accepted for compatibility.

    Raises
    ------
    NoSuchFile, InvalidProtobuf, InvalidGraph
        If the model cannot be read or breaks its specification; all problems are listed.
    NotImplemented
        If something in it, or an option, is not supported.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[Mapping[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        del kwargs
        if not isinstance(path_or_bytes, str | bytes | os.PathLike):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        self._model_path = None if isinstance(path_or_bytes, bytes) else os.fspath(path_or_bytes)
        self._model_bytes = path_or_bytes if isinstance(path_or_bytes, bytes) else None
        self._sess_options = sess_options if sess_options is not None else SessionOptions()
        if not providers and self._sess_options.has_providers():
            providers = self._sess_options._providers
        self._load(place(providers, provider_options))

    def _load(self, placement: Placement) -> None:
        options = self._sess_options
        if self._model_path is not None and not Path(self._model_path).is_file():
            raise NoSuchFile(f"Load model from {self._model_path} failed. File doesn't exist")
        source = self._model_path if self._model_path is not None else self._model_bytes
        assert source is not None
        with translated():
            try:
                loaded = load_model(source, None)
            except InvalidModel as error:
                raise InvalidProtobuf(f"Failed to load model because protobuf parsing failed: {error}") from error
            _describe.forgive(loaded.proto)
            _describe.replace_initializers(loaded, options._initializers)
            if options.optimized_model_filepath:
                _describe.save(loaded, options.optimized_model_filepath)
            sizes = options._sizes | _describe.denoted_symbols(loaded.proto, options._sizes_by_denotation)
            executor, outputs = self._compile(loaded, placement, sizes)
        self._providers = list(placement.providers)
        self._provider_options = placement.providers
        if CUDA in placement.providers:
            self._provider_options[CUDA] = placement.providers[CUDA] | {"device_id": str(placement.ordinal)}
        self._model_meta = _describe.metadata_of(loaded.proto)
        self._inputs_meta = _describe.describe_inputs(loaded.proto, sizes)
        self._outputs_meta = _describe.describe_outputs(loaded.proto, outputs)
        self._overridable_meta = _describe.describe_overridable(loaded.proto)
        self._checks = {port.name: _Input(port) for port in self._inputs_meta}
        self._overridable = {port.name: _Input(port) for port in self._overridable_meta}
        self._all_outputs = [port.name for port in self._outputs_meta]
        self._output_names = {port.name for port in self._outputs_meta}
        self._main = _Engine(executor)
        self._engines = {frozenset[str](): self._main}
        """By the initializers that a run replaces."""
        self._source = (loaded, placement, sizes) if self._overridable else None
        """What further engines are made from."""
        self._profile = Profile(options.profile_file_prefix) if options.enable_profiling else None
        self._profile_start = self._profile.start if self._profile is not None else 0

    def _compile(
        self, loaded: LoadedModel, placement: Placement, sizes: Mapping[str, int]
    ) -> tuple[Executor, Sequence[Port]]:
        options = self._sess_options
        compiler = Compiler(loaded)
        for name in sizes.keys() & set(compiler.variables):
            compiler.substitute(name, sizes[name])
        plain_graph = options.graph_optimization_level == GraphOptimizationLevel.ORT_DISABLE_ALL
        executor = compiler.compile(
            placement.targets, passes=["-all"] if plain_graph else [], num_threads=options.intra_op_num_threads
        )
        if placement.ordinal:
            executor.dispatch(find_device("nvidia", placement.ordinal))
        return executor, compiler.outputs

    def _engine(self, replaced: frozenset[str]) -> _Engine:
        """Return what runs with these initializers as inputs, made when it is asked for first."""
        found = self._engines.get(replaced)
        if found is None:
            assert self._source is not None
            loaded, placement, sizes = self._source
            executor, _ = self._compile(_describe.without_initializers(loaded, replaced), placement, sizes)
            found = self._engines.setdefault(replaced, _Engine(executor))
        return found

    # ------------------------------------------------------------------ descriptions
    def get_session_options(self) -> SessionOptions:
        """Return the options."""
        return self._sess_options

    def get_inputs(self) -> list[NodeArg]:
        """Describe the inputs that are no initializers."""
        return self._inputs_meta

    def get_outputs(self) -> list[NodeArg]:
        """Describe the outputs."""
        return self._outputs_meta

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Describe the initializers that are inputs, too: a run may replace them.

        They are packed and folded when the session is made; the first run that replaces some compiles the model again.
        """
        return self._overridable_meta

    def get_modelmeta(self) -> ModelMetadata:
        """Return what the model says about itself."""
        return self._model_meta

    def get_providers(self) -> list[str]:
        """Return the providers in use."""
        return self._providers

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return the options of each provider in use."""
        return self._provider_options

    def set_providers(
        self,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[Mapping[Any, Any]] | None = None,
    ) -> None:
        """Load the model again for other providers."""
        self._load(place(providers, provider_options))

    def get_tuning_results(self) -> list[Any]:
        """Return nothing: there are no results of tuning in onnxruntime's form."""
        return []

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Do nothing: there are no such options."""

    def enable_fallback(self) -> None:
        """Do nothing: a run never changes the providers."""

    def disable_fallback(self) -> None:
        """Do nothing: a run never changes the providers."""

    # ------------------------------------------------------------------ runs
    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Run the model.

        Parameters
        ----------
        output_names
            Which outputs to return, all if there are none.
        input_feed
            A value for every input: an array, an OrtValue or nested lists of numbers; a list of arrays for a sequence.
        run_options
            See `RunOptions`.

        Returns
        -------
        list
            Arrays; lists for sequences.

        Raises
        ------
        ValueError
            If an input is missing.
        InvalidArgument
            If a name, a type or a shape is wrong, or data is (an index out of range).
        Fail
            If `run_options.terminate` stopped the run.
        """
        names = self._names(output_names)
        outputs = self._execute(self._feed(input_feed), run_options)
        return [outputs[name] for name in names]

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Run the model; as `run`, with OrtValues in and out."""
        return [OrtValue(value) for value in self.run(output_names, input_dict_ort_values, run_options)]

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: list[OrtValue],
        fetch_devices: Sequence[Any],
    ) -> None:
        """Run the model; as `run_with_ort_values`, with names and values apart, and the results behind `fetches`."""
        del fetch_devices
        fetches.extend(self.run_with_ort_values(fetch_names, dict(zip(feed_names, feeds, strict=True)), run_options))

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run the model on another thread, which calls `callback(results, user_data, error)` at the end."""
        names, feed = self._names(output_names), self._feed(input_feed)

        def work() -> None:
            try:
                outputs = self._execute(feed, run_options)
                results, problem = [outputs[name] for name in names], ""
            except Exception as error:  # there is nobody to raise it to
                results, problem = [], str(error)
            callback(results, user_data, problem)

        threading.Thread(target=work, name="InferenceSession.run_async").start()

    def io_binding(self) -> IOBinding:
        """Return a new binding of inputs and outputs."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run the model on bound inputs.

        Raises
        ------
        RuntimeError
            With the reason.
        """
        if iobinding._session is not self:
            raise ValueError("IOBinding must be used with the session that created it.")
        if not iobinding._outputs:
            raise RuntimeError("Error in execution: At least one output should be requested.")
        try:
            outputs = self._execute(self._feed(iobinding._inputs), run_options)
            iobinding._keep(outputs)
        except (OnnxRuntimeError, ValueError) as error:
            raise RuntimeError(f"Error in execution: {error}") from error

    def _names(self, wanted: Sequence[str] | None) -> Iterable[str]:
        if not wanted:
            return self._all_outputs
        if isinstance(wanted, str):
            raise TypeError(f"output_names: expected a list of names, got the text {wanted!r}")
        for name in wanted:
            if name not in self._output_names:
                raise InvalidArgument(f"Invalid output name:{name}")
        return wanted

    def _feed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(given, Mapping):
            raise TypeError(f"input_feed: expected a dict of inputs by name, got {type(given).__name__}")
        complete = given.keys() >= self._checks.keys()
        if not complete:
            missing = [name for name, item in self._checks.items() if name not in given and not item.optional]
            if missing:
                raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(given.keys())}).")
        feed: dict[str, Any] = {}
        for name, value in given.items():
            check = self._checks.get(name) or self._overridable.get(name)
            if check is None:
                raise InvalidArgument(f"Invalid input name: {name}")
            feed[name] = check.check(value)
        if not complete:
            for name in self._checks.keys() - feed.keys():
                feed[name] = None
        return feed

    def _execute(self, feed: dict[str, Any], options: RunOptions | None) -> dict[str, NDArray[Any]]:
        engine = self._main
        if self._overridable:
            with translated():
                engine = self._engine(frozenset(self._overridable.keys() & feed.keys()))
        executor = engine.take()
        start = time.monotonic_ns()
        try:
            return executor(feed) if options is None else executor(feed, token=options._token)
        except Cancelled as error:
            raise Fail("Exiting due to terminate flag being set to true.") from error
        except Error as error:
            raise translation(error) from error
        finally:
            if self._profile is not None:
                self._profile.add(start, time.monotonic_ns())
            engine.idle.append(executor)

    # ------------------------------------------------------------------ profiling
    def end_profiling(self) -> str:
        """Write the profile and return the name of its file; "" if `enable_profiling` was not set.

        It is a list of events in Chrome's format: every run since the session was made, and the steps of one more run
        with the last inputs.
        """
        if self._profile is None:
            return ""
        profile, self._profile = self._profile, None
        idle = [executor for engine in self._engines.values() for executor in engine.idle]
        return profile.write(idle[-1] if idle else None)

    def get_profiling_start_time_ns(self) -> int:
        """Return when profiling began, on the clock of `time.monotonic_ns`; 0 if it is not enabled."""
        return self._profile_start
