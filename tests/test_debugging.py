"""bench, trace, dbg and the command line."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from refactor_graph import InvalidInput
from refactor_graph.cli import main
from refactor_graph.onnx import make_compiler

from tests import models


@pytest.fixture
def executor():
    executor = make_compiler(models.convolutions()).compile(num_threads=1)
    executor.set_input(0, models.generator().standard_normal((1, 3, 32, 32), np.float32))
    return executor


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(models.convolutions(), path)
    return str(path)


def test_bench_prints_and_returns_a_table(executor, capsys):
    table = executor.bench(sync=True)
    printed = capsys.readouterr().out
    for word in ("time", "share", "shape", "kernel", "Conv", "conv:cpu:"):
        assert word in printed
    assert len(table) >= 4
    assert all(row.nanoseconds >= 0 for row in table)
    assert table.nanoseconds == pytest.approx(sum(row.nanoseconds for row in table))
    assert any("GFLOP/s" in row.rate for row in table)
    assert len(table.slowest(3)) == 3
    assert table.slowest(1)[0].nanoseconds == max(row.nanoseconds for row in table)
    with pytest.raises(InvalidInput):
        executor.bench(repeats=0)


def test_trace_files(executor, tmp_path):
    folder = tmp_path / "a" / "trace"
    count = executor.trace(folder, "npy")
    executor.run()
    assert len(list(folder.glob("*.npy"))) == count
    metas = sorted(folder.glob("node*.meta"), key=lambda item: int(item.stem[4:]))
    assert [item.stem for item in metas] == [f"node{i}" for i in range(len(metas))]
    found = {}
    for number, meta in enumerate(metas):
        head, *lines = meta.read_text().splitlines()
        assert head.split("\t")[1] == str(number)
        counts = {"input": 0, "output": 0}
        for line in lines:
            side, index, name, file = line.split("\t")
            assert int(index) == counts[side]
            counts[side] += 1
            found[name] = np.load(folder / file)
        assert counts["output"] >= 1
    np.testing.assert_array_equal(found["y"], executor.get_output(0))
    assert found["x"].shape == (1, 3, 32, 32)
    with pytest.raises(InvalidInput, match="npy"):
        executor.trace(folder, "csv")


def test_traced_intermediates_are_row_major(executor, tmp_path):
    plain = make_compiler(models.convolutions()).compile("cpu", "default", ["-all"], num_threads=1)
    plain.set_input(0, models.generator().standard_normal((1, 3, 32, 32), np.float32))
    tensors = []
    for index, item in enumerate((executor, plain)):
        item.trace(tmp_path / str(index))
        tensors.append({})
        for meta in (tmp_path / str(index)).glob("*.meta"):
            for line in meta.read_text().splitlines()[1:]:
                side, _, name, file = line.split("\t")
                if side == "output":
                    tensors[-1][name] = np.load(tmp_path / str(index) / file)
    common = set(tensors[0]) & set(tensors[1])
    assert len(common) >= 3
    for name in common:
        assert tensors[0][name].shape == tensors[1][name].shape
        models.assert_close(tensors[0][name], tensors[1][name])


def test_dbg(executor, capsys):
    text = executor.dbg()
    assert capsys.readouterr().out.strip() == text.strip()
    for word in ("conv1", "conv:cpu:", "fold_affine", "lower_bound", "x: f32"):
        assert word in text
    fresh = make_compiler(models.mlp()).compile()
    assert "x" in fresh.dbg(quiet=True)


def test_import_prints_nothing():
    command = [sys.executable, "-c", "import refactor_graph.onnx, refactor_graph.cli"]
    result = subprocess.run(command, capture_output=True, check=True)
    assert result.stdout == b""
    assert result.stderr == b""


# ---------------------------------------------------------------------- command line
SIZES = ["--dim", "N=2", "--dim", "H=16", "--dim", "W=24"]


def test_command_check(path, tmp_path, capsys):
    assert main(["check", path]) == 0
    bad = tmp_path / "bad.onnx"
    proto = models.mlp()
    proto.graph.node[1].op_type = "Frobnicate"
    onnx.save(proto, bad)
    assert main(["check", path, str(bad)]) == 1
    printed = capsys.readouterr().out
    assert "ok" in printed
    assert "Frobnicate" in printed


def test_command_run(path, tmp_path, capsys):
    assert main(["run", path, *SIZES, "--save", str(tmp_path / "out")]) == 0
    assert "y: float32[2, 11]" in capsys.readouterr().out
    assert np.load(tmp_path / "out" / "y.npy").shape == (2, 11)
    array = tmp_path / "x.npy"
    np.save(array, np.zeros((1, 3, 8, 8), np.float32))
    assert main(["run", path, "--input", f"x={array}", "--passes=-all", "--allocator", "plain", "--threads", "1"]) == 0
    assert "y: float32[1, 11]" in capsys.readouterr().out


def test_command_bench_and_inspect(path, capsys):
    assert main(["bench", path, *SIZES, "--runs", "2", "--top", "3"]) == 0
    assert "conv:cpu:" in capsys.readouterr().out
    assert main(["inspect", path]) == 0
    assert "variables: N, H, W" in capsys.readouterr().out


def test_command_compare(path, capsys):
    pytest.importorskip("onnxruntime")
    assert main(["compare", path, *SIZES, "--threads", "1"]) == 0
    assert "y: equal" in capsys.readouterr().out


def test_command_trace(path, tmp_path, capsys):
    assert main(["trace", path, str(tmp_path / "trace"), *SIZES]) == 0
    assert (tmp_path / "trace" / "node0.meta").exists()
    assert "tensors written" in capsys.readouterr().out


def test_command_doctor(capsys):
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    for word in ("refactor_graph", "cpu:", "nvidia:", "threads by default", "instruction set: "):
        assert word in printed


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "/no/such/file.onnx"],
        ["run", "PATH", "--dim", "N"],
        ["run", "PATH", "--input", "x"],
        ["run", "PATH", "--input", "x=/no/such/file.npy"],
        ["bench", "PATH", "--passes", "nothing"],
        ["inspect", "PATH", "--target", "abacus"],
    ],
)
def test_command_errors(arguments, path, capsys):
    assert main([path if word == "PATH" else word for word in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("refactor-graph: ")
    assert "Traceback" not in captured.err
