"""onnxruntime's plain objects: options, enumerations, descriptions of inputs and models."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from refactor_graph._core import CancellationToken
from refactor_graph.compat._errors import Fail

if TYPE_CHECKING:
    from refactor_graph.compat._values import OrtValue


class _Named(enum.IntEnum):
    """Shown with its name, as onnxruntime's enumerations are."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class GraphOptimizationLevel(_Named):
    """How much may be changed in the graph: nothing, or whatever the default pipeline does."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(_Named):
    """Accepted for compatibility: steps run one after the other, each on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(_Named):
    """Accepted for compatibility: the plan decides the order."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtMemType(_Named):
    """Where the memory of a value is."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtAllocatorType(_Named):
    """Accepted for compatibility."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtArenaCfg:
    """Accepted for compatibility: memory is planned, not kept in an arena."""

    def __init__(self, *options: Any) -> None:
        self._options = options


class _Checked:
    """An object with a fixed set of attributes, each of one type."""

    _defaults: Mapping[str, Any] = {}

    def __init__(self) -> None:
        for name, value in self._defaults.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
            return
        if name not in self._defaults:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        kind = type(self._defaults[name])
        if issubclass(kind, enum.Enum):
            if not isinstance(value, int):
                raise TypeError(f"{name}: expected {kind.__name__}, got {type(value).__name__}")
            value = kind(value)
        elif kind is int and not isinstance(value, bool) and hasattr(value, "__index__"):
            value = int(value)
        elif kind is bool and isinstance(value, int):
            value = bool(value)
        elif not isinstance(value, kind):
            raise TypeError(f"{name}: expected {kind.__name__}, got {type(value).__name__}")
        object.__setattr__(self, name, value)


class _Entries:
    """Texts by name."""

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}

    def _add(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"expected two texts, got {type(key).__name__} and {type(value).__name__}")
        self._entries[key] = value

    def _get(self, kind: str, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"{kind} does not have configuration with key: {key}")
        return self._entries[key]


class SessionOptions(_Checked, _Entries):
    """Options of a session.

    `intra_op_num_threads`, `graph_optimization_level`, `enable_profiling`, `profile_file_prefix`, the overrides of free
    dimensions and the added initializers have their meaning. `optimized_model_filepath` gets the model as it is: what
    it is optimised to is not ONNX. Everything else is accepted and changes nothing: memory is always planned and
    reused, results are always deterministic, nothing is logged. A library of custom operators is refused.
    """

    if TYPE_CHECKING:
        enable_cpu_mem_arena: bool
        enable_mem_pattern: bool
        enable_mem_reuse: bool
        enable_profiling: bool
        execution_mode: ExecutionMode
        execution_order: ExecutionOrder
        graph_optimization_level: GraphOptimizationLevel
        inter_op_num_threads: int
        intra_op_num_threads: int
        log_severity_level: int
        log_verbosity_level: int
        logid: str
        optimized_model_filepath: str
        profile_file_prefix: str
        use_deterministic_compute: bool
        use_per_session_threads: bool

    _defaults = {  # noqa: RUF012
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "enable_profiling": False,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "inter_op_num_threads": 0,
        "intra_op_num_threads": 0,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_",
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }

    def __init__(self) -> None:
        _Checked.__init__(self)
        _Entries.__init__(self)
        self._sizes: dict[str, int] = {}
        self._sizes_by_denotation: dict[str, int] = {}
        self._initializers: dict[str, OrtValue] = {}
        self._providers: list[tuple[str, dict[str, str]]] = []

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; none changes anything."""
        self._add(key, value)

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry that was added."""
        return self._get("SessionOptions", key)

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Give a symbol of the inputs a fixed size."""
        self._sizes[name] = int(value)

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        """Give all dimensions of the inputs with a denotation ("DATA_BATCH") a fixed size."""
        self._sizes_by_denotation[denotation] = int(value)

    def add_initializer(self, name: str, value: OrtValue) -> None:
        """Use `value` in place of the model's initializer `name`."""
        self._initializers[name] = value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue]) -> None:
        """Use `values` in place of the model's external initializers `names`."""
        if len(names) != len(values):
            raise RuntimeError(f"{len(names)} names and {len(values)} values of initializers are given")
        self._initializers.update(zip(names, values, strict=True))

    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        """Append a provider; used when the session is given none."""
        self._providers.append((name, {str(key): str(value) for key, value in options.items()}))

    def has_providers(self) -> bool:
        """Return whether `add_provider` was called."""
        return bool(self._providers)

    def register_custom_ops_library(self, path: str) -> None:
        """Refuse: such a library calls back into onnxruntime's own C interface."""
        raise Fail(f"Failed to load library {path}: it needs the C interface of onnxruntime, which is not here")


class RunOptions(_Checked, _Entries):
    """Options of a run; setting `terminate` stops the runs that were given this object, from any thread."""

    if TYPE_CHECKING:
        log_severity_level: int
        log_verbosity_level: int
        logid: str
        only_execute_path_to_fetches: bool
        terminate: bool

    _defaults = {  # noqa: RUF012
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "terminate": False,
    }

    def __init__(self) -> None:
        _Checked.__init__(self)
        _Entries.__init__(self)
        self._token = CancellationToken()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "terminate":
            if self.terminate:
                self._token.cancel()
            elif self._token.cancelled:
                self._token = CancellationToken()

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; none changes anything."""
        self._add(key, value)

    def get_run_config_entry(self, key: str) -> str:
        """Return an entry that was added."""
        return self._get("RunOptions", key)


@dataclass(frozen=True)
class NodeArg:
    """Description of an input or output.

    Attributes
    ----------
    name
        Its name.
    type
        Text of its type: "tensor(float)".
    shape
        A number, the name of a symbol or None (unknown) for each dimension; empty if the rank is unknown, too.
    """

    name: str
    type: str
    shape: list[int | str | None]

    def __str__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape!r})"


@dataclass(frozen=True)
class ModelMetadata:
    """What a model says about itself."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, str] = field(default_factory=dict)
