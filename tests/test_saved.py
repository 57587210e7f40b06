"""Compiled models in files: what comes back, what does not, and files that are not what they seem."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import refactor_graph
from onnx import helper
from refactor_graph import InvalidInput, InvalidModel, Unsupported, load
from refactor_graph.cli import main
from refactor_graph.onnx import make_compiler
from safetensors import safe_open

from tests import models

ROOT = Path(__file__).parents[1]
LENGTH = 8


def images(batch=2):
    """Convolutions whose weights are packed in several ways, and a product."""
    random = models.generator()
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"], "relu"),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], "second", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["c1"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "w2"], ["y"], "gemm"),
    ]
    weights = {"w0": (16, 3, 3, 3), "w1": (32, 16, 3, 3), "w2": (32, 10)}
    constants = [models.constant(k, random.standard_normal(v, np.float32)) for k, v in weights.items()]
    return models.model(nodes, [models.value("x", [batch, 3, 20, 20])], [models.value("y", None)], constants)


def picture(seed=0, batch=2):
    return {"x": models.generator(seed).standard_normal((batch, 3, 20, 20), np.float32)}


@pytest.fixture
def saved(tmp_path):
    """Path of a saved model, and the executor that saved it."""
    executor = make_compiler(images()).compile("cpu", num_threads=1)
    path = tmp_path / "model.rg"
    executor.save(path)
    return path, executor


def same(first, second):
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])


@pytest.mark.parametrize(
    "options",
    [{}, {"precision": "exact"}, {"weights": "f16"}, {"weights": "int8"}, {"passes": ["-all"]}, {"precision": "int8"}],
)
def test_loaded_models_compute_the_same(options, tmp_path):
    executor = make_compiler(images()).compile("cpu", num_threads=2, **options)
    executor.save(tmp_path / "model.rg")
    loaded = load(tmp_path / "model.rg", num_threads=2)
    same(loaded(picture()), executor(picture()))
    assert str(loaded.program) == str(executor.program)
    assert list(map(repr, loaded.inputs)) == list(map(repr, executor.inputs))
    assert list(map(repr, loaded.outputs)) == list(map(repr, executor.outputs))
    assert executor.program.packed_bytes > 0
    assert loaded.program.packed_bytes == 0, "weights were packed again"


def test_loaded_models_run_on_every_device(target, tmp_path):
    executor = make_compiler(images()).compile(target)
    executor.save(tmp_path / "model.rg")
    loaded = load(tmp_path / "model.rg")
    assert loaded.device.kind == executor.device.kind
    same(loaded(picture()), executor(picture()))


def test_open_sizes(tmp_path):
    executor = make_compiler(images("N")).compile("cpu", num_threads=1)
    executor.save(tmp_path / "fresh.rg")
    outputs = {n: executor(picture(n, n)) for n in (1, 3)}
    executor.save(tmp_path / "used.rg")
    for name in ("fresh", "used"):
        loaded = load(tmp_path / f"{name}.rg", num_threads=1)
        for n, expected in outputs.items():
            same(loaded(picture(n, n)), expected)
        assert (loaded.program.packed_bytes == 0) == (name == "used")
    with pytest.raises(InvalidInput, match=r"expected f32\[N, 3, 20, 20\], got f32\[1, 4, 20, 20\]"):
        loaded({"x": np.zeros((1, 4, 20, 20), np.float32)})


def test_saving_what_was_loaded_changes_nothing(saved, tmp_path):
    path, _ = saved
    load(path, num_threads=1).save(tmp_path / "again.rg")
    assert (tmp_path / "again.rg").read_bytes() == path.read_bytes()


def test_a_file_may_be_replaced_by_the_model_that_it_holds(saved):
    path, executor = saved
    loaded = load(path)
    loaded.save(path)
    same(loaded(picture()), executor(picture()))
    same(load(path)(picture()), executor(picture()))


def test_the_file_has_the_format_of_safetensors(saved):
    path, _ = saved
    with safe_open(path, "numpy") as file:
        metadata, names = file.metadata(), list(file.keys())
        constants = {name.partition(" ")[2]: file.get_tensor(name) for name in names if name[0].isdigit()}
    assert metadata["version"] == refactor_graph.__version__
    assert {"graph", "checksums"} < set(names)
    model = {item.name: onnx.numpy_helper.to_array(item) for item in images().graph.initializer}
    np.testing.assert_array_equal(constants["w0"], model["w0"])
    assert any(name.startswith("w1 as ") for name in constants)


def test_weights_lie_where_kernels_may_read_them(saved):
    header = json.loads(saved[0].read_bytes()[LENGTH:].partition(b"}}")[0] + b"}}")
    start = LENGTH + int.from_bytes(saved[0].read_bytes()[:LENGTH], "little")
    assert start % 64 == 0
    assert all(entry["data_offsets"][0] % 64 == 0 for name, entry in header.items() if name[0].isdigit())


def test_executors_of_a_loaded_model_have_everything_else(saved, tmp_path):
    loaded = load(saved[0], "bestfit", num_threads=1)
    assert loaded.allocator == "bestfit"
    same(loaded.clone()(picture()), loaded(picture()))
    loaded.set_input("x", picture()["x"])
    loaded.run()
    assert loaded.trace(tmp_path / "trace") > 3
    assert len(loaded.bench(quiet=True)) > 3
    assert "fuse_epilogues" in loaded.dbg(quiet=True)


def loop():
    """y = x, doubled n times; the number of rows that are positive."""
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "s"], ["t"]), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [models.value("i", [], 7), models.value("c", [], 9), models.value("s", None)],
        [models.value("d", [], 9), models.value("t", None)],
    )
    nodes = [
        helper.make_node("Loop", ["n", "", "x"], ["y"], "loop", body=body),
        helper.make_node("NonZero", ["y"], ["places"], "nonzero"),
        helper.make_node("SplitToSequence", ["y"], ["rows"], "rows"),
        helper.make_node("SequenceAt", ["rows", "n"], ["row"], "row"),
    ]
    outputs = [models.value(name, None) for name in ("y", "row")] + [models.value("places", None, 7)]
    return models.model(nodes, [models.value("x", ["R", 2]), models.value("n", [], 7)], outputs)


def test_models_of_several_programs(tmp_path):
    executor = make_compiler(loop()).compile("cpu")
    assert executor.program.calls > 1
    executor.save(tmp_path / "loop.rg")
    loaded = load(tmp_path / "loop.rg")
    feeds = {"x": np.array([[1, 0], [0, 3], [2, 2], [0, 0]], np.float32), "n": np.array(3)}
    same(loaded(feeds), executor(feeds))
    np.testing.assert_array_equal(loaded(feeds)["y"], 8 * feeds["x"])
    loaded.save(tmp_path / "again.rg")
    assert (tmp_path / "again.rg").read_bytes() == (tmp_path / "loop.rg").read_bytes()


def test_what_runs_code_of_the_user_is_refused(tmp_path):
    def double(x):
        return 2 * x

    op = refactor_graph.CustomOp("test.saved", "Double", double, lambda x: x)
    model = models.model(
        [helper.make_node("Double", ["x"], ["y"], "twice", domain="test.saved")],
        [models.value("x", [2])],
        [models.value("y", [2])],
        domains=["test.saved"],
    )
    executor = make_compiler(model, custom_ops=[op]).compile("cpu")
    with pytest.raises(Unsupported, match='cannot be saved:\n  Double node "twice"'):
        executor.save(tmp_path / "model.rg")
    assert list(tmp_path.iterdir()) == []


def test_the_suite_of_the_standard():
    run = subprocess.run(
        [sys.executable, "-m", "tests.backend_suite", "--saved", "--filter", "^(Node|Simple)/.*[a-m]$"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    passed, cases = map(int, re.match(r"(\d+) of (\d+) cases pass", run.stdout).groups())
    assert run.returncode == 0, f"{run.stdout}{run.stderr[-2000:]}"
    assert passed > 0.8 * cases > 100


# Files that are not what they seem.


def refuses(path, error, text, **options):
    with pytest.raises(error, match=text) as caught:
        load(path, **options)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"ab", b"\0" * 8, b"\xff" * 8, b"\0" * 4000, b"\x08\x08" + b"onnx" * 100])
def test_other_files(content, tmp_path):
    (tmp_path / "file").write_bytes(content)
    refuses(tmp_path / "file", InvalidModel, "is not a saved model")


def test_an_onnx_model_is_not_a_saved_one(tmp_path):
    onnx.save(images(), tmp_path / "model.onnx")
    refuses(tmp_path / "model.onnx", InvalidModel, "is not a saved model")


def test_files_that_cannot_be_read(tmp_path):
    refuses(tmp_path / "none", InvalidInput, "cannot be opened: No such file")
    refuses(tmp_path, InvalidInput, "is not a regular file")
    for wrong in (3, None, b"x"):
        with pytest.raises(InvalidInput, match="expected a path"):
            load(wrong)


def test_every_shorter_file_is_refused(saved, tmp_path):
    whole = saved[0].read_bytes()
    part = tmp_path / "part"
    for length in {*range(0, 300, 7), *range(0, len(whole), 997), len(whole) - 1}:
        part.write_bytes(whole[:length])
        with pytest.raises(InvalidModel):
            load(part)


def changed_header(path, change):
    data = path.read_bytes()
    length = int.from_bytes(data[:LENGTH], "little")
    header = json.loads(data[LENGTH : LENGTH + length])
    change(header)
    text = json.dumps(header, separators=(",", ":")).encode()
    assert len(text) <= length, "the change is too long for this test"
    path.write_bytes(data[:LENGTH] + text + b" " * (length - len(text)) + data[LENGTH + length :])


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda h: h["__metadata__"].update(version="0"), Unsupported, "saved by version '0'"),
        (lambda h: h["__metadata__"].update(format="x"), InvalidModel, "found 'x'"),
        (lambda h: h.pop("__metadata__"), InvalidModel, "expected the format"),
        (lambda h: h["__metadata__"].pop("graph_sha256"), InvalidModel, "graph is not the one"),
        (lambda h: h.pop("graph"), InvalidModel, "graph is not the one"),
        (lambda h: h.pop("checksums"), InvalidModel, "0 checksums"),
        (lambda h: h["graph"].update(data_offsets=[0, 1]), InvalidModel, "graph is not the one"),
        (lambda h: h["graph"].update(data_offsets=[0, 1 << 50]), InvalidModel, "lies at 0 to"),
        (lambda h: h["graph"].update(data_offsets=[-1, 9]), InvalidModel, "lies at -1 to"),
        (lambda h: h["graph"].update(data_offsets=[9, 1]), InvalidModel, "lies at 9 to 1"),
        (lambda h: h["graph"].update(data_offsets=[0]), InvalidModel, "has no place"),
        (lambda h: h["graph"].update(data_offsets=[0, 1.5]), InvalidModel, "has no place"),
        (lambda h: h["graph"].pop("data_offsets"), InvalidModel, "has no place"),
        (lambda h: h.update(graph=3), InvalidModel, "no table of tensors"),
        (lambda h: h.pop("0 w0"), InvalidModel, "is not number 0"),
    ],
)
def test_headers_that_were_changed(saved, change, error, text):
    changed_header(saved[0], change)
    refuses(saved[0], error, text)


def test_tensors_of_another_size_are_refused(saved):
    def shorten(header):
        name = next(name for name in header if name.startswith("0 "))
        header[name]["data_offsets"][1] = header[name]["data_offsets"][0]

    changed_header(saved[0], shorten)
    refuses(saved[0], InvalidModel, "not what was written")


def test_damaged_bytes(saved):
    path, executor = saved
    whole = path.read_bytes()
    with safe_open(path, "numpy") as file:
        graph = file.get_tensor("graph").tobytes()
    at = whole.index(graph) + len(graph) // 2
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    refuses(path, InvalidModel, "graph is not the one that was saved")

    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    refuses(path, InvalidModel, "tensor '.*' is not the one that was saved", verify=True)
    path.write_bytes(whole)
    same(load(path, verify=True)(picture()), executor(picture()))


def test_a_processor_without_the_instructions(saved):
    code = f"import refactor_graph as rg\ntry: rg.load({str(saved[0])!r})\nexcept rg.Unsupported as e: print(e)"
    if make_compiler(images()).compile("cpu").dbg(quiet=True).count(":avx") == 0:
        pytest.skip("this processor has nothing to lack")
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"REFACTOR_GRAPH_ISA": "scalar"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"kernels are for avx\w+, this processor has scalar", run.stdout)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_threads": -1}, "num_threads"),
        ({"num_threads": True}, "num_threads"),
        ({"allocator": "none"}, "unknown allocator"),
        ({"max_tensor_bytes": -1}, "max_tensor_bytes"),
        ({"verify": "yes"}, "verify"),
        ({"device_graphs": 2}, "device_graphs"),
    ],
)
def test_wrong_arguments(saved, options, text):
    with pytest.raises(InvalidInput, match=text):
        load(saved[0], **options)


def test_large_tensors_are_refused_as_when_compiled(saved):
    with pytest.raises(refactor_graph.OutOfMemory):
        load(saved[0], max_tensor_bytes=100)(picture())


@pytest.mark.parametrize("name", ["none/model.rg", "folder", "x" * 300, "nul\0", ""])
def test_places_that_cannot_be_written(saved, name, tmp_path):
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InvalidInput):
        saved[1].save(os.path.join(tmp_path, name) if name else "")  # noqa: PTH118 (a Path takes no "")
    assert sorted(tmp_path.iterdir()) == before
    with pytest.raises(InvalidInput, match="expected a path"):
        saved[1].save(3)


def test_the_command(tmp_path, capsys):
    source, file = str(tmp_path / "model.onnx"), str(tmp_path / "model.rg")
    onnx.save(images("N"), source)
    assert main(["save", source, file, "--dim", "N=2", "--threads", "1"]) == 0
    assert re.match(r".*model.rg: \d+\.\d MB\n", capsys.readouterr().out)
    assert main(["run", source, "--dim", "N=2"]) == 0
    expected = capsys.readouterr().out
    assert main(["run", file]) == 0
    assert capsys.readouterr().out == expected
    assert main(["bench", file, "--runs", "2"]) == 0
    assert "first" in capsys.readouterr().out
    assert main(["run", file, "--precision", "exact"]) == 2
    assert "--precision: " in capsys.readouterr().err
    assert main(["inspect", file]) == 2


def test_open_sizes_of_the_command(tmp_path, capsys):
    source, file = str(tmp_path / "model.onnx"), str(tmp_path / "model.rg")
    onnx.save(images("N"), source)
    assert main(["save", source, file]) == 0
    capsys.readouterr()
    assert main(["run", file, "--dim", "N=3"]) == 0
    assert "float32[3, 10]" in capsys.readouterr().out
    assert main(["run", file, "--dim", "M=3"]) == 2
    assert "no symbol 'M', it has: N" in capsys.readouterr().err
