"""Sessions and options of onnxruntime's interface.

Every test with the fixture `ort` runs on onnxruntime itself, too.
"""

import json
import threading

import numpy as np
import pytest
import refactor_graph.compat
from onnx import TensorProto, helper

from tests import models
from tests.compat_cases import make_bytes, make_model, make_x, runtime_fixture, state_of, wanted_z

ort = runtime_fixture()


# ---------------------------------------------------------------------- loading and descriptions
def test_a_session_from_bytes_and_from_paths(ort, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(make_bytes())
    x = make_x()
    for source in (make_bytes(), str(path), path):
        session = ort.InferenceSession(source, providers=["CPUExecutionProvider"])
        (z,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(z, wanted_z(x))


def test_inputs_and_outputs_are_described(ort):
    session = ort.InferenceSession(make_bytes())
    (x,), (z,) = session.get_inputs(), session.get_outputs()
    assert (x.name, x.type, x.shape) == ("x", "tensor(float)", ["N", None, 3])
    assert (z.name, z.type, z.shape) == ("z", "tensor(float)", ["N", None, 3])
    assert str(x) == "NodeArg(name='x', type='tensor(float)', shape=['N', None, 3])"


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20])
def test_types_are_called_as_there(code):
    real = pytest.importorskip("onnxruntime")
    ports = [models.value("x", ["N", 3], code)], [models.value("y", ["N", 3], code)]
    data = models.model([helper.make_node("Identity", ["x"], ["y"])], *ports, opset=21).SerializeToString()
    ours, theirs = refactor_graph.compat.InferenceSession(data), real.InferenceSession(data)
    assert ours.get_inputs()[0].type == theirs.get_inputs()[0].type
    assert ours.get_outputs()[0].type == theirs.get_outputs()[0].type


def test_an_initializer_that_is_an_input_is_not_asked_for(ort):
    model = make_model()
    model.graph.input.append(models.value("w", [3]))
    session = ort.InferenceSession(model.SerializeToString())
    assert [port.name for port in session.get_inputs()] == ["x"]
    np.testing.assert_array_equal(session.run(None, {"x": make_x()})[0], wanted_z(make_x()))


def test_an_initializer_that_is_an_input_may_be_replaced_in_a_run(ort):
    model, x = make_model(), make_x()
    model.ir_version = 8
    model.graph.input.append(models.value("w", [3]))
    session = ort.InferenceSession(model.SerializeToString())
    assert [(port.name, port.shape) for port in session.get_overridable_initializers()] == [("w", [3])]
    w = np.array([-5, 0, 2], np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(session.run(None, {"x": x, "w": w})[0], np.maximum(x + w, 0))
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], wanted_z(x))
    with pytest.raises(state_of(ort).InvalidArgument, match="Got invalid dimensions"):
        session.run(None, {"x": x, "w": w[:2]})


def test_the_optimised_model_is_a_file(ort, tmp_path):
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    ort.InferenceSession(make_bytes(), options)
    (z,) = ort.InferenceSession(options.optimized_model_filepath).run(None, {"x": make_x()})
    np.testing.assert_array_equal(z, wanted_z(make_x()))


def test_metadata(ort):
    model = make_model(character="a b c", blank="0")
    model.producer_name, model.domain, model.doc_string, model.model_version = "maker", "example.org", "text", 7
    meta = ort.InferenceSession(model.SerializeToString()).get_modelmeta()
    assert meta.custom_metadata_map == {"character": "a b c", "blank": "0"}
    assert (meta.producer_name, meta.domain, meta.description, meta.version) == ("maker", "example.org", "text", 7)
    assert meta.graph_name == "test"


def test_what_cannot_be_loaded(ort, tmp_path):
    state = state_of(ort)
    with pytest.raises(state.NoSuchFile, match=r"\[ONNXRuntimeError\] : 3 : NO_SUCHFILE"):
        ort.InferenceSession(str(tmp_path / "none.onnx"))
    with pytest.raises(state.InvalidProtobuf, match="7 : INVALID_PROTOBUF"):
        ort.InferenceSession(b"garbage")
    with pytest.raises(TypeError, match="Unable to load from type"):
        ort.InferenceSession(make_model())
    broken = make_model()
    broken.graph.node[0].input.append("x")
    with pytest.raises(state.InvalidGraph, match="10 : INVALID_GRAPH"):
        ort.InferenceSession(broken.SerializeToString())


def test_marks_of_tools_on_constants_are_passed_over():
    constant = helper.make_node("Constant", [], ["c"], value=models.constant("v", np.float32(2)), mark=1)
    nodes = [constant, helper.make_node("Mul", ["x", "c"], ["y"])]
    model = models.model(nodes, [models.value("x", ["N"])], [models.value("y", ["N"])])
    np.testing.assert_array_equal(
        refactor_graph.compat.InferenceSession(model.SerializeToString()).run(None, {"x": make_x(5)})[0], 2 * make_x(5)
    )


def test_negative_sizes_are_unknown_ones(ort):
    model = _negative_sizes()
    session = ort.InferenceSession(model.SerializeToString())
    assert session.get_inputs()[0].shape == [None, None, 3]
    np.testing.assert_array_equal(session.run(None, {"x": make_x()})[0], wanted_z(make_x()))


def _negative_sizes():
    model = make_model()
    for dim in model.graph.input[0].type.tensor_type.shape.dim[:2]:
        dim.dim_value = -1
    return model


def test_an_unknown_operator_is_not_implemented():
    model = make_model()
    model.graph.node[0].op_type = "Frobnicate"
    state = state_of(refactor_graph.compat)
    with pytest.raises(state.NotImplemented, match=r"9 : NOT_IMPLEMENTED(.|\n)*Frobnicate") as caught:
        refactor_graph.compat.InferenceSession(model.SerializeToString())
    assert isinstance(caught.value, refactor_graph.Error)
    assert isinstance(caught.value.__cause__, refactor_graph.Unsupported)


# ---------------------------------------------------------------------- runs
def test_outputs_are_chosen_by_name_and_order(ort):
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["x"], ["b"])]
    outputs = [models.value("a", ["N"]), models.value("b", ["N"])]
    session = ort.InferenceSession(models.model(nodes, [models.value("x", ["N"])], outputs).SerializeToString())
    x = make_x(7)
    a, b = np.maximum(x, 0), -x
    for names, wanted in ((None, [a, b]), ([], [a, b]), (["b"], [b]), (["b", "a"], [b, a]), (("a",), [a])):
        for actual, expected in zip(session.run(names, {"x": x}), wanted, strict=True):
            np.testing.assert_array_equal(actual, expected)


def test_wrong_feeds_are_refused(ort):
    session, state, x = ort.InferenceSession(make_bytes()), state_of(ort), make_x()
    with pytest.raises(ValueError, match=r"Required inputs \(\['x'\]\) are missing from input feed \(\[\]\)"):
        session.run(None, {})
    cases = [
        (None, {"x": x, "q": x}, "Invalid input name: q"),
        (["q"], {"x": x}, "Invalid output name:q"),
        (["y"], {"x": x}, "Invalid output name:y"),
        (None, {"x": x.astype(np.float64)}, r"Actual: \(tensor\(double\)\) , expected: \(tensor\(float\)\)"),
        (None, {"x": x.astype(np.int32)}, r"Actual: \(tensor\(int32\)\) , expected: \(tensor\(float\)\)"),
        (None, {"x": x[0]}, "Invalid rank for input: x Got: 2 Expected: 3"),
        (None, {"x": make_x(2, 5, 4)}, "index: 2 Got: 4 Expected: 3"),
    ]
    for names, feed, message in cases:
        with pytest.raises(state.InvalidArgument, match=message):
            session.run(names, feed)
    with pytest.raises(RuntimeError, match="Unable to handle object of type"):
        session.run(None, {"x": 1.0})
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], wanted_z(x))


def test_nested_lists_and_other_memory_orders_are_taken(ort):
    session = ort.InferenceSession(make_bytes())
    np.testing.assert_array_equal(session.run(None, {"x": [[[1.0, 2.0, 3.0]]]})[0], [[[2, 0, 6]]])
    x = make_x(5, 3, 3)
    np.testing.assert_array_equal(session.run(None, {"x": x.transpose(2, 0, 1)})[0], wanted_z(x.transpose(2, 0, 1)))
    np.testing.assert_array_equal(session.run(None, {"x": x[::2]})[0], wanted_z(x[::2]))


def test_results_stay_when_the_session_runs_again(ort):
    session = ort.InferenceSession(make_bytes())
    (first,) = session.run(None, {"x": make_x()})
    kept = first.copy()
    session.run(None, {"x": -make_x()})
    np.testing.assert_array_equal(first, kept)


def test_threads_share_a_session(ort):
    session, wrong = ort.InferenceSession(make_bytes()), []

    def work(seed):
        random = np.random.default_rng(seed)
        for _ in range(30):
            x = random.standard_normal((random.integers(1, 9), 5, 3), np.float32)
            if not np.array_equal(session.run(None, {"x": x})[0], wanted_z(x)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_run_may_end_on_another_thread(ort):
    session, done, got = ort.InferenceSession(make_bytes()), threading.Event(), []

    def callback(results, user_data, problem):
        got.append((results, user_data, problem))
        done.set()

    session.run_async(None, {"x": make_x()}, callback, "mine")
    assert done.wait(60)
    ((results, user_data, problem),) = got
    assert (user_data, problem) == ("mine", "")
    np.testing.assert_array_equal(results[0], wanted_z(make_x()))


def test_run_options(ort):
    session, options = ort.InferenceSession(make_bytes()), ort.RunOptions()
    options.log_severity_level, options.logid = 4, "tag"
    options.add_run_config_entry("key", "value")
    assert options.get_run_config_entry("key") == "value"
    np.testing.assert_array_equal(session.run(None, {"x": make_x()}, options)[0], wanted_z(make_x()))
    options.terminate = True
    with pytest.raises(state_of(ort).Fail, match="Exiting due to terminate flag being set to true"):
        session.run(None, {"x": make_x()}, options)
    options.terminate = False
    np.testing.assert_array_equal(session.run(None, {"x": make_x()}, run_options=options)[0], wanted_z(make_x()))


def test_data_that_is_wrong_is_an_error_of_a_run():
    model = models.model(
        [helper.make_node("Gather", ["x", "i"], ["y"])],
        [models.value("x", [5]), models.value("i", ["N"], TensorProto.INT64)],
        [models.value("y", ["N"])],
    )
    session = refactor_graph.compat.InferenceSession(model.SerializeToString())
    with pytest.raises(state_of(refactor_graph.compat).InvalidArgument, match="9"):
        session.run(None, {"x": make_x(5), "i": np.array([9])})


# ---------------------------------------------------------------------- options
def test_options_have_the_same_defaults_and_names():
    real = pytest.importorskip("onnxruntime")
    for name in ("SessionOptions", "RunOptions"):
        ours, theirs = getattr(refactor_graph.compat, name)(), getattr(real, name)()
        for field in ours._defaults:
            assert str(getattr(ours, field)) == str(getattr(theirs, field)), field
        with pytest.raises(AttributeError):
            ours.no_such_option = 1
    for name in ("GraphOptimizationLevel", "ExecutionMode", "ExecutionOrder"):
        ours, theirs = getattr(refactor_graph.compat, name), getattr(real, name)
        assert {key: int(value) for key, value in theirs.__members__.items()} == dict(ours.__members__)


def test_options_check_their_types(ort):
    options = ort.SessionOptions()
    with pytest.raises(TypeError):
        options.intra_op_num_threads = "x"
    with pytest.raises(TypeError):
        options.logid = 3
    with pytest.raises(TypeError):
        options.graph_optimization_level = "all"


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_ALL"])
def test_levels_of_optimisation_agree(ort, level):
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.intra_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 4
    model = models.convolutions()
    x = models.generator(7).standard_normal((3, 3, 37, 29), np.float32)
    reference = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    (y,) = ort.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})
    # The longest sum has 9 · 24 terms; the levels differ in the order of summation only.
    np.testing.assert_allclose(y, reference, rtol=0, atol=216 * np.finfo(np.float32).eps * np.abs(reference).max())


def test_dimensions_are_overridden_by_name_and_denotation(ort):
    model = make_model()
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    data = model.SerializeToString()
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("N", 2)
    options.add_free_dimension_override_by_name("nothing", 5)
    session = ort.InferenceSession(data, options)
    assert session.get_inputs()[0].shape == [2, None, 3]
    assert session.get_outputs()[0].shape == [2, None, 3]
    np.testing.assert_array_equal(session.run(None, {"x": make_x()})[0], wanted_z(make_x()))
    with pytest.raises(state_of(ort).InvalidArgument, match="Got: 4 Expected: 2"):
        session.run(None, {"x": make_x(4, 5, 3)})


def test_a_denotation_names_sizes():
    model = make_model()
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    options = refactor_graph.compat.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 2)
    session = refactor_graph.compat.InferenceSession(model.SerializeToString(), options)
    assert session.get_inputs()[0].shape == [2, None, 3]


def test_initializers_are_replaced():
    value = refactor_graph.compat.OrtValue.ortvalue_from_numpy(np.array([5, 6, 7], np.float32))
    options = refactor_graph.compat.SessionOptions()
    options.add_initializer("w", value)
    session = refactor_graph.compat.InferenceSession(make_bytes(), options)
    x = make_x()
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.maximum(x + value.numpy(), 0))
    options.add_external_initializers(["none"], [value])
    with pytest.raises(state_of(refactor_graph.compat).InvalidArgument, match="no initializer 'none'"):
        refactor_graph.compat.InferenceSession(make_bytes(), options)


def test_configuration_entries_are_kept(ort):
    options = ort.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    with pytest.raises(RuntimeError, match="does not have configuration with key: none"):
        options.get_session_config_entry("none")
    kept = ort.InferenceSession(make_bytes(), options).get_session_options()
    assert kept.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_what_an_option_cannot_do_is_said():
    state = state_of(refactor_graph.compat)
    options = refactor_graph.compat.SessionOptions()
    with pytest.raises(state.Fail, match="C interface of onnxruntime"):
        options.register_custom_ops_library("lib.so")


def test_the_profile_is_a_file(ort, tmp_path):
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    session = ort.InferenceSession(make_bytes(), options)
    assert session.get_profiling_start_time_ns() > 0
    session.run(None, {"x": make_x()})
    with open(session.end_profiling(), encoding="utf-8") as file:  # noqa: PTH123
        events = json.load(file)
    assert {"Session", "Node"} <= {event["cat"] for event in events}
    assert all(event["dur"] >= 0 for event in events)
    assert ort.InferenceSession(make_bytes()).end_profiling() == ""


# ---------------------------------------------------------------------- providers
def test_providers_of_a_session(ort):
    session = ort.InferenceSession(make_bytes(), providers=["CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert "CPUExecutionProvider" in session.get_provider_options()
    assert "CPUExecutionProvider" in ort.get_available_providers()
    assert "CUDAExecutionProvider" in ort.get_all_providers()
    options = {"arena_extend_strategy": "kSameAsRequested"}
    session = ort.InferenceSession(make_bytes(), providers=[("CPUExecutionProvider", options)])
    session.set_providers(["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"x": make_x()})[0], wanted_z(make_x()))


def test_an_unknown_provider_warns_and_the_processor_runs(ort):
    with pytest.warns(UserWarning, match="'FooExecutionProvider' is not in available provider names"):
        session = ort.InferenceSession(make_bytes(), providers=["FooExecutionProvider", "CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_providers_of_a_wrong_form():
    cases = [
        ({"providers": [3]}, "must be either strings or"),
        ({"providers": ["CPUExecutionProvider"], "provider_options": [{}, {}]}, "should be the same length"),
        ({"providers": ["CPUExecutionProvider"], "provider_options": ["x"]}, "must be dicts"),
        ({"providers": [("CPUExecutionProvider", {})], "provider_options": [{}]}, "Only string values"),
        ({"providers": 5}, "should be a sequence"),
    ]
    for arguments, message in cases:
        with pytest.raises(ValueError, match=message):
            refactor_graph.compat.InferenceSession(make_bytes(), **arguments)


@pytest.mark.skipif(refactor_graph.compat.get_device() == "GPU", reason="there is a GPU")
def test_cuda_is_never_replaced_silently():
    state = state_of(refactor_graph.compat)
    with pytest.raises(state.EPFail, match="CUDAExecutionProvider is the only provider asked for"):
        refactor_graph.compat.InferenceSession(make_bytes(), providers=["CUDAExecutionProvider"])
    both = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    with pytest.warns(UserWarning, match="CUDAExecutionProvider is not available and left out"):
        session = refactor_graph.compat.InferenceSession(make_bytes(), providers=both)
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert refactor_graph.compat.get_available_providers() == ["CPUExecutionProvider"]


@pytest.mark.cuda
@pytest.mark.skipif(refactor_graph.compat.get_device() != "GPU", reason="no GPU")
def test_cuda_runs():
    session = refactor_graph.compat.InferenceSession(
        make_bytes(), providers=[("CUDAExecutionProvider", {"device_id": 0})]
    )
    assert session.get_providers() == ["CUDAExecutionProvider"]
    np.testing.assert_array_equal(session.run(None, {"x": make_x()})[0], wanted_z(make_x()))
