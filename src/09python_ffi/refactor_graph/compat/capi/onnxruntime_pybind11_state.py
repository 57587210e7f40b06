"""Names that code imports from onnxruntime's native module.

This file may be loaded a second time under onnxruntime's name, so it defines nothing: classes stay the same ones.
"""

from refactor_graph.compat import (
    ExecutionMode as ExecutionMode,
)
from refactor_graph.compat import (
    ExecutionOrder as ExecutionOrder,
)
from refactor_graph.compat import (
    GraphOptimizationLevel as GraphOptimizationLevel,
)
from refactor_graph.compat import (
    InferenceSession as InferenceSession,
)
from refactor_graph.compat import (
    ModelMetadata as ModelMetadata,
)
from refactor_graph.compat import (
    NodeArg as NodeArg,
)
from refactor_graph.compat import (
    OrtAllocatorType as OrtAllocatorType,
)
from refactor_graph.compat import (
    OrtArenaCfg as OrtArenaCfg,
)
from refactor_graph.compat import (
    OrtDevice as OrtDevice,
)
from refactor_graph.compat import (
    OrtMemoryInfo as OrtMemoryInfo,
)
from refactor_graph.compat import (
    OrtMemType as OrtMemType,
)
from refactor_graph.compat import (
    OrtValue as OrtValue,
)
from refactor_graph.compat import (
    OrtValueVector as OrtValueVector,
)
from refactor_graph.compat import (
    RunOptions as RunOptions,
)
from refactor_graph.compat import (
    SessionIOBinding as SessionIOBinding,
)
from refactor_graph.compat import (
    SessionOptions as SessionOptions,
)
from refactor_graph.compat import (
    copy_tensors as copy_tensors,
)
from refactor_graph.compat import (
    create_and_register_allocator as create_and_register_allocator,
)
from refactor_graph.compat import (
    disable_telemetry_events as disable_telemetry_events,
)
from refactor_graph.compat import (
    enable_telemetry_events as enable_telemetry_events,
)
from refactor_graph.compat import (
    get_all_providers as get_all_providers,
)
from refactor_graph.compat import (
    get_available_providers as get_available_providers,
)
from refactor_graph.compat import (
    get_build_info as get_build_info,
)
from refactor_graph.compat import (
    get_device as get_device,
)
from refactor_graph.compat import (
    get_ep_devices as get_ep_devices,
)
from refactor_graph.compat import (
    get_version_string as get_version_string,
)
from refactor_graph.compat import (
    has_collective_ops as has_collective_ops,
)
from refactor_graph.compat import (
    set_default_logger_severity as set_default_logger_severity,
)
from refactor_graph.compat import (
    set_default_logger_verbosity as set_default_logger_verbosity,
)
from refactor_graph.compat import (
    set_global_thread_pool_sizes as set_global_thread_pool_sizes,
)
from refactor_graph.compat import (
    set_seed as set_seed,
)
from refactor_graph.compat._blocks import (
    quantize_matmul_2bits as quantize_matmul_2bits,
)
from refactor_graph.compat._blocks import (
    quantize_matmul_4bits as quantize_matmul_4bits,
)
from refactor_graph.compat._blocks import (
    quantize_matmul_8bits as quantize_matmul_8bits,
)
from refactor_graph.compat._blocks import (
    quantize_qdq_matmul_4bits as quantize_qdq_matmul_4bits,
)
from refactor_graph.compat._errors import (
    EngineError as EngineError,
)
from refactor_graph.compat._errors import (
    EPFail as EPFail,
)
from refactor_graph.compat._errors import (
    Fail as Fail,
)
from refactor_graph.compat._errors import (
    InvalidArgument as InvalidArgument,
)
from refactor_graph.compat._errors import (
    InvalidGraph as InvalidGraph,
)
from refactor_graph.compat._errors import (
    InvalidProtobuf as InvalidProtobuf,
)
from refactor_graph.compat._errors import (
    ModelLoadCanceled as ModelLoadCanceled,
)
from refactor_graph.compat._errors import (
    ModelLoaded as ModelLoaded,
)
from refactor_graph.compat._errors import (
    ModelRequiresCompilation as ModelRequiresCompilation,
)
from refactor_graph.compat._errors import (
    NoModel as NoModel,
)
from refactor_graph.compat._errors import (
    NoSuchFile as NoSuchFile,
)
from refactor_graph.compat._errors import (
    NotFound as NotFound,
)
from refactor_graph.compat._errors import (
    NotImplemented as NotImplemented,  # noqa: A004
)
from refactor_graph.compat._errors import (
    RuntimeException as RuntimeException,
)
