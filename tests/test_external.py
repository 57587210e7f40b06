"""External data stays inside the model's directory and inside its files."""

import os
import shutil

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from refactor_graph import InvalidInput, InvalidModel
from refactor_graph.onnx import make_compiler

from tests import models

WEIGHTS = models.generator(9).standard_normal((5, 8), np.float32)
SECRET = np.full((5, 8), 1337, np.float32)


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "model"
    (root / "sub").mkdir(parents=True)
    (root / "w.bin").write_bytes(WEIGHTS.tobytes())
    (root / "sub" / "w.bin").write_bytes(b"head" + WEIGHTS.tobytes())
    (tmp_path / "secret.bin").write_bytes(SECRET.tobytes())
    (tmp_path / "modelling").mkdir()
    (tmp_path / "modelling" / "w.bin").write_bytes(SECRET.tobytes())
    (root / "link.bin").symlink_to(tmp_path / "secret.bin")
    (root / "relative.bin").symlink_to("../secret.bin")
    (root / "sibling").symlink_to("../modelling")
    (root / "outside").symlink_to(tmp_path)
    (root / "inside.bin").symlink_to("sub/w.bin")
    (root / "loop.bin").symlink_to("loop.bin")
    os.mkfifo(root / "fifo.bin")
    (root / "empty.bin").touch()
    return root


def external(folder, dims=(5, 8), dtype=TensorProto.FLOAT, entries=(), **keys):
    proto = models.mlp()
    del proto.graph.initializer[0]
    tensor = proto.graph.initializer.add()
    tensor.name, tensor.data_type, tensor.data_location = "w", dtype, TensorProto.EXTERNAL
    tensor.dims.extend(dims)
    for key, value in [*keys.items(), *entries]:
        tensor.external_data.add(key=key, value=value)
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def reference(array):
    proto = models.mlp()
    proto.graph.initializer[0].CopyFrom(models.constant("w", WEIGHTS))
    return models.expected(proto, {"x": array})[0]


@pytest.mark.parametrize(
    "keys",
    [
        {"location": "w.bin"},
        {"location": "w.bin", "offset": "0", "length": "160"},
        {"location": "sub/w.bin", "offset": "4"},
        {"location": "./sub/w.bin", "offset": "4", "length": "160"},
        {"location": "inside.bin", "offset": "4"},
    ],
)
def test_good_data(folder, keys):
    path = external(folder, **keys)
    array = models.generator().standard_normal((3, 8), np.float32)
    models.assert_close(make_compiler(path).compile()({"x": array})["y"], reference(array))
    proto = onnx.load(path, load_external_data=False)
    for base in (folder, str(folder), folder.as_uri()):
        models.assert_close(make_compiler(proto, base).compile()({"x": array})["y"], reference(array))
        models.assert_close(make_compiler(path.read_bytes(), base).compile()({"x": array})["y"], reference(array))


@pytest.mark.parametrize(
    "location",
    [
        *("../secret.bin", "sub/../../secret.bin", "..\\secret.bin", "/etc/passwd", "//etc/passwd", "/dev/zero"),
        *("/proc/self/mem", "link.bin", "relative.bin", "outside/secret.bin", "sibling/w.bin", "loop.bin", "fifo.bin"),
        *("sub", "none.bin", "", ".", "w.bin\0.txt", "http://127.0.0.1:9/w.bin", "file:///etc/passwd", "a" * 100_000),
        *("C:\\w.bin", "sub/../w.bin"),
    ],
)
def test_bad_location(folder, location):
    with pytest.raises(InvalidModel, match="'w'") as info:
        make_compiler(external(folder, location=location))
    assert len(info.value.problems) == 1


@pytest.mark.parametrize(
    ("keys", "pattern"),
    [
        ({"offset": "4096"}, "outside"),
        ({"offset": "64"}, "outside"),
        ({"offset": "-4"}, "offset"),
        ({"offset": "abc"}, "offset"),
        ({"offset": "1e1"}, "offset"),
        ({"offset": str(2**63)}, "offset"),
        ({"offset": str(2**63 - 1)}, "outside"),
        ({"length": "4096"}, "4096"),
        ({"length": "64"}, "64"),
        ({"length": "0"}, "0 bytes"),
        ({"length": "-160"}, "length"),
        ({"length": "xyz"}, "length"),
        ({"size": "160"}, "size"),
        ({"dims": (500, 8)}, "outside"),
        ({"dims": (2**31, 2**31)}, "too large"),
        ({"dims": (-5, 8)}, "negative"),
        ({"dtype": TensorProto.STRING}, "string"),
        ({"dtype": 0}, "data_type 0"),
        ({"entries": [("location", "../secret.bin")]}, "twice"),
    ],
)
def test_bad_range(folder, keys, pattern):
    with pytest.raises(InvalidModel, match=f"(?s)'w'.*{pattern}") as info:
        make_compiler(external(folder, location="w.bin", **keys))
    assert len(info.value.problems) == 1


def test_other_problems_are_reported_beside_bad_data(folder):
    path = external(folder, location="none.bin")
    proto = onnx.load(path, load_external_data=False)
    proto.graph.node.add(op_type="NoSuchOperator", name="other", input=["x"], output=["z"])
    proto.graph.output.append(models.value("z", None))
    with pytest.raises(InvalidModel) as info:
        make_compiler(proto, folder)
    assert len(info.value.problems) == 2
    assert "NoSuchOperator" in info.value.problems[1]


def test_bad_data_in_a_sub_graph(folder):
    """The branch that holds it is not called missing, either."""
    tensor = TensorProto(name="t", data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL, dims=[5, 8])
    tensor.external_data.add(key="location", value="none.bin")
    add = helper.make_node("Add", ["x", "t"], ["a"])
    neg = helper.make_node("Neg", ["x"], ["b"])
    branches = [
        helper.make_graph([node], "branch", [], [models.value(node.output[0], None)], initializer)
        for node, initializer in ((add, [tensor]), (neg, []))
    ]
    node = helper.make_node("If", ["c"], ["y"], "if", then_branch=branches[0], else_branch=branches[1])
    inputs = [models.value("c", [], TensorProto.BOOL), models.value("x", [5, 8])]
    proto = models.model([node], inputs, [models.value("y", None)])
    with pytest.raises(InvalidModel, match=r"none\.bin") as info:
        make_compiler(proto, folder)
    assert len(info.value.problems) == 1


def test_empty_file_and_missing_location(folder):
    with pytest.raises(InvalidModel, match="outside"):
        make_compiler(external(folder, location="empty.bin"))
    with pytest.raises(InvalidModel, match="no location"):
        make_compiler(external(folder, offset="0"))


def test_model_without_a_directory(folder):
    data = external(folder, location="w.bin").read_bytes()
    with pytest.raises(InvalidModel, match="base_dir_or_uri"):
        make_compiler(data)


@pytest.mark.parametrize("base", ["http://example.com/", "file://elsewhere/tmp", "/no/such/folder", "\0"])
def test_bad_base(folder, base):
    with pytest.raises(InvalidInput, match="base_dir_or_uri"):
        make_compiler(external(folder, location="w.bin").read_bytes(), base)


def test_model_behind_a_link_uses_the_directory_of_the_link(folder, tmp_path):
    path = external(folder, location="w.bin")
    link = folder / "other.onnx"
    link.symlink_to(path)
    make_compiler(link).compile()
    far = tmp_path / "far.onnx"
    far.symlink_to(path)
    with pytest.raises(InvalidModel):
        make_compiler(far)


def test_files_may_go_once_they_are_mapped(folder):
    array = models.generator().standard_normal((3, 8), np.float32)
    executor = make_compiler(external(folder, location="w.bin")).compile()
    shutil.rmtree(folder)
    models.assert_close(executor({"x": array})["y"], reference(array))


def test_many_tensors_of_one_file(tmp_path):
    proto = models.convolutions()
    path = tmp_path / "conv.onnx"
    onnx.save_model(proto, path, save_as_external_data=True, location="conv.data", size_threshold=0)
    array = models.generator().standard_normal((2, 3, 17, 19), np.float32)
    wanted = models.expected(models.convolutions(), {"x": array})[0]
    models.assert_close(make_compiler(path).compile()({"x": array})["y"], wanted)


def test_external_constant_in_a_node(folder):
    tensor = TensorProto(name="t", data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL, dims=[5, 8])
    tensor.external_data.add(key="location", value="../secret.bin")
    proto = models.model([helper.make_node("Constant", [], ["y"], value=tensor)], [], [models.value("y", [5, 8])])
    with pytest.raises(InvalidModel, match="value") as info:
        make_compiler(proto, folder)
    assert len(info.value.problems) == 1
    tensor.external_data[0].value = "w.bin"
    proto.graph.node[0].attribute[0].t.CopyFrom(tensor)
    np.testing.assert_array_equal(make_compiler(proto, folder).compile()({})["y"], WEIGHTS)
