"""Values, bindings and modules of onnxruntime's interface.

Every test with the fixture `ort` runs on onnxruntime itself, too.
"""

import pickle
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import onnx
import pytest
import refactor_graph.compat
from onnx import TensorProto, helper

from tests import models
from tests.compat_cases import make_bytes, make_model, make_x, runtime_fixture, state_of, wanted_z

ort = runtime_fixture()


# ---------------------------------------------------------------------- values and bindings
def test_values_describe_themselves(ort):
    x = make_x()
    value = ort.OrtValue.ortvalue_from_numpy(x)
    assert (value.shape(), value.data_type(), value.element_type()) == ([2, 5, 3], "tensor(float)", 1)
    assert (value.device_name(), value.tensor_size_in_bytes()) == ("cpu", x.nbytes)
    assert (value.has_value(), value.is_tensor(), value.is_tensor_sequence()) == (True, True, False)
    assert value.data_ptr() == x.ctypes.data
    np.testing.assert_array_equal(value.numpy(), x)
    np.testing.assert_array_equal(np.asarray(value), x)
    value.update_inplace(-x)
    np.testing.assert_array_equal(value.numpy(), x)  # it is the memory of x
    with pytest.raises(RuntimeError, match="numpy arrays"):
        ort.OrtValue.ortvalue_from_numpy([1, 2])


def test_values_of_types_and_shapes(ort):
    value = ort.OrtValue.ortvalue_from_shape_and_type([3, 2], np.int64)
    assert (value.shape(), value.data_type()) == ([3, 2], "tensor(int64)")
    value = ort.OrtValue.ortvalue_from_shape_and_type([3, 2], TensorProto.BFLOAT16)
    assert (value.data_type(), value.tensor_size_in_bytes()) == ("tensor(bfloat16)", 12)
    half = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros((2, 3), np.uint16), TensorProto.BFLOAT16)
    assert half.data_type() == "tensor(bfloat16)"


def test_texts_that_are_none(ort):
    """Object arrays of pandas hold NaN where text is missing."""
    identity = helper.make_node("Identity", ["x"], ["y"])
    ports = [helper.make_tensor_value_info(name, TensorProto.STRING, [None]) for name in "xy"]
    graph = helper.make_graph([identity], "g", ports[:1], ports[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": np.array(["a", float("nan"), 3, None], object)})
    assert y.tolist() == ["a", "nan", "3", "None"]


def test_maps(ort):
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["b", "a", "c"])
    element = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    kind = helper.make_map_type_proto(TensorProto.STRING, element)
    ports = [helper.make_value_info("x", kind)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    proto = helper.make_model(helper.make_graph([node], "g", *ports), opset_imports=imports, ir_version=8)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": {"a": 2.0, "c": -1.0, "d": 5.0}})
    assert y.tolist() == [[0.0, 2.0, -1.0]]


def test_a_run_with_values(ort):
    session, x = ort.InferenceSession(make_bytes()), make_x()
    (z,) = session.run_with_ort_values(["z"], {"x": ort.OrtValue.ortvalue_from_numpy(x)})
    np.testing.assert_array_equal(z.numpy(), wanted_z(x))


def test_a_run_with_vectors_of_values(ort):
    session, state = ort.InferenceSession(make_bytes()), state_of(ort)
    feeds, fetches = state.OrtValueVector(), state.OrtValueVector()
    x = ort.OrtValue.ortvalue_from_numpy(make_x())
    feeds.push_back(x if ort is refactor_graph.compat else x._ortvalue)
    device = state.OrtDevice(0, 0, 0)
    session.run_with_ortvaluevector(ort.RunOptions(), ["x"], feeds, ["z"], fetches, [device])
    assert len(fetches) == 1
    np.testing.assert_array_equal(fetches[0].numpy(), wanted_z(make_x()))


def test_values_are_copied():
    """onnxruntime itself copies between devices alone."""
    ours = refactor_graph.compat
    x, y = make_x(), np.zeros((2, 5, 3), np.float32)
    source, target = ours.OrtValue.ortvalue_from_numpy(x), ours.OrtValue.ortvalue_from_numpy(y)
    ours.copy_tensors([source], [target])
    np.testing.assert_array_equal(target.numpy(), x)


def test_binding_of_arrays(ort):
    session = ort.InferenceSession(make_bytes())
    binding = session.io_binding()
    binding.bind_cpu_input("x", make_x())
    binding.bind_output("z")
    for _ in range(3):
        session.run_with_iobinding(binding)
        (z,) = binding.copy_outputs_to_cpu()
        np.testing.assert_array_equal(z, wanted_z(make_x()))
    assert binding.get_outputs()[0].shape() == [2, 5, 3]


def test_binding_of_memory(ort):
    session, x = ort.InferenceSession(make_bytes()), make_x()
    y = np.zeros_like(x)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, list(x.shape), x.ctypes.data)
    binding.bind_output("z", "cpu", 0, np.float32, list(y.shape), y.ctypes.data)
    binding.synchronize_inputs()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    np.testing.assert_array_equal(y, wanted_z(x))
    x *= -1  # bound memory is read again by every run
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(y, wanted_z(x))


def test_binding_of_values(ort):
    session, x = ort.InferenceSession(make_bytes()), make_x()
    target = ort.OrtValue.ortvalue_from_shape_and_type(list(x.shape), np.float32)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(x))
    binding.bind_ortvalue_output("z", target)
    session.run_with_iobinding(binding, ort.RunOptions())
    np.testing.assert_array_equal(target.numpy(), wanted_z(x))
    binding.clear_binding_outputs()
    binding.clear_binding_inputs()
    with pytest.raises(RuntimeError, match="At least one output should be requested"):
        session.run_with_iobinding(binding)


def test_wrong_bindings(ort):
    session = ort.InferenceSession(make_bytes())
    other, binding = ort.InferenceSession(make_bytes()), session.io_binding()
    with pytest.raises(RuntimeError, match="Failed to find NodeArg with name: none"):
        binding.bind_cpu_input("none", make_x())
    with pytest.raises(ValueError, match="`element_type` and `shape` are to be provided"):
        binding.bind_output("z", buffer_ptr=64)
    binding.bind_output("z")
    with pytest.raises(ValueError, match="must be used with the session that created it"):
        other.run_with_iobinding(binding)
    with pytest.raises(RuntimeError):
        session.run_with_iobinding(binding)


def test_bound_memory_has_to_fit():
    session = refactor_graph.compat.InferenceSession(make_bytes())
    binding, small = session.io_binding(), np.zeros(3, np.float32)
    binding.bind_cpu_input("x", make_x())
    binding.bind_output("z", "cpu", 0, np.float32, [3], small.ctypes.data)
    with pytest.raises(RuntimeError, match=r"float32\[2, 5, 3\], it is bound to float32\[3\]"):
        session.run_with_iobinding(binding)
    with pytest.raises(state_of(refactor_graph.compat).NotImplemented, match="memory of 'cuda'"):
        binding.bind_output("z", "cuda")


def test_texts_are_taken_as_any_array():
    model = models.model(
        [helper.make_node("Identity", ["x"], ["y"])],
        [models.value("x", ["N"], TensorProto.STRING)],
        [models.value("y", ["N"], TensorProto.STRING)],
    )
    session = refactor_graph.compat.InferenceSession(model.SerializeToString())
    for array in (np.array(["a", "bc"]), np.array(["a", "bc"], object)):
        assert list(session.run(None, {"x": array})[0]) == ["a", "bc"]


# ---------------------------------------------------------------------- code written for onnxruntime
class _Pickable:
    """As insightface does it."""

    def __init__(self, session_type, path):
        self.type, self.path = session_type, path
        self.session = session_type(path)

    def __getstate__(self):
        return {"type": self.type, "path": self.path}

    def __setstate__(self, values):
        self.__init__(values["type"], values["path"])


def test_sessions_may_be_pickled_by_their_path(ort, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(make_model(), path)
    again = pickle.loads(pickle.dumps(_Pickable(ort.InferenceSession, str(path))))
    np.testing.assert_array_equal(again.session.run(None, {"x": make_x()})[0], wanted_z(make_x()))
    assert again.session._model_path == str(path)


def test_sessions_may_be_subclassed(ort):
    class Session(ort.InferenceSession):
        def __init__(self, source, **kwargs):
            super().__init__(source, **kwargs)
            self.mine = 1

    session = Session(make_bytes(), sess_options=None, providers=["CPUExecutionProvider"], provider_options=None)
    assert isinstance(session, ort.InferenceSession)
    np.testing.assert_array_equal(session.run(None, {"x": make_x()})[0], wanted_z(make_x()))


_PROGRAM = """
    {replace}
    import onnxruntime as rt
    from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions, get_available_providers
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, NotImplemented, RuntimeException
    from onnxruntime.capi._pybind_state import InvalidGraph
    from onnxruntime.capi.onnxruntime_inference_collection import OrtValue
    import onnxruntime.backend
    import numpy as np, sys

    assert "refactor_graph" in rt.InferenceSession.__module__, rt.InferenceSession
    assert rt.OrtValue is OrtValue
    rt.set_default_logger_severity(3)
    data = sys.stdin.buffer.read()
    try:
        InferenceSession(data).run(None, {{"x": np.zeros((2, 3))}})
    except InvalidArgument as error:
        assert "Unexpected input data type" in str(error)
    else:
        raise SystemExit("no error")
    (z,) = onnxruntime.backend.prepare(data).run([np.ones((1, 1, 3), np.float32)])
    assert z.tolist() == [[[2, 0, 4]]], z
"""


@pytest.mark.parametrize(
    "replace",
    [
        "import refactor_graph.compat; refactor_graph.compat.install()",
        "import sys, refactor_graph.compat; sys.modules['onnxruntime'] = refactor_graph.compat",
    ],
)
def test_imports_of_onnxruntime_are_served(replace):
    program = textwrap.dedent(_PROGRAM).format(replace=replace)
    run = subprocess.run([sys.executable, "-c", program], input=make_bytes(), capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()


@pytest.mark.parametrize(
    ("needs", "line"),
    [
        ("onnx", "from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic"),
        ("torch", "from onnxruntime.transformers.io_binding_helper import TypeHelper"),
    ],
)
def test_python_parts_of_onnxruntime_stay_importable(needs, line):
    pytest.importorskip("onnxruntime")
    pytest.importorskip(needs)
    program = f"""
        import refactor_graph.compat; refactor_graph.compat.install()
        import onnxruntime
        {line}
        import sys
        assert "onnxruntime.capi.onnxruntime_pybind11_state" not in sys.modules or "refactor" in str(
            sys.modules["onnxruntime.capi.onnxruntime_pybind11_state"].InvalidArgument.__module__
        )
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, check=False, text=True)
    assert run.returncode == 0, run.stderr


def test_installing_late_is_an_error():
    pytest.importorskip("onnxruntime")
    program = "import onnxruntime, refactor_graph.compat; refactor_graph.compat.install()"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)
    assert "has been imported already" in run.stderr


def test_the_module_has_what_programs_look_for(ort):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ort.get_device() in ("CPU", "GPU")
        assert ort.get_version_string() == ort.__version__
        assert isinstance(ort.get_build_info(), str)
        ort.set_default_logger_severity(3)
        ort.set_default_logger_verbosity(0)
        ort.set_seed(1)
        ort.disable_telemetry_events()
