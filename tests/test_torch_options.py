"""Weights, threads, options and refusals of the `torch.compile` backend."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import refactor_graph
from refactor_graph import DeviceError, InvalidInput, Unsupported

from tests.conftest import missing_gpu
from tests.torch_cases import assert_close, check, cnn, compile_fx, compiled, fresh, graphs, nn, torch, torch_backend

__all__ = ["fresh"]  # the fixture

PACKAGES = Path(refactor_graph.__file__).parents[1]


# ---------------------------------------------------------------------- weights
def test_weights_that_change_are_seen():
    model = nn.Linear(8, 4)
    run, x = compiled(model), torch.randn(3, 8)
    assert_close(run(x), model(x))
    model.weight.mul_(2)
    assert_close(run(x), model(x))
    model.load_state_dict(nn.Linear(8, 4).state_dict())
    assert_close(run(x), model(x))
    model.bias = nn.Parameter(torch.randn(4))
    assert_close(run(x), model(x))
    model.weight.data = torch.randn(4, 8)
    assert_close(run(x), model(x))
    assert len(graphs()) == 1


def test_training_between_calls():
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run, x = compiled(model), torch.randn(16, 8)
    for _ in range(4):
        model.eval()
        assert_close(run(x), model(x), 3)
        model.train()
        with torch.enable_grad():
            model(x).square().sum().backward()
        optimizer.step()


def test_buffers_that_keep_changing_become_inputs():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(3))

        def forward(self, x):
            return x * self.scale

    model = Scaled()
    run, x = compiled(model), torch.randn(2, 3)
    for _ in range(6):
        model.scale.add_(1)
        assert_close(run(x), model(x))
    (graph,) = graphs()
    (executor,) = graph.executors
    model.scale.add_(1)
    run(x)
    assert graph.executors == [executor]


def test_layers_that_are_compiled_one_by_one_share_their_graph():
    class Layer(nn.Linear):
        def forward(self, x):
            return super().forward(x).tanh()

    layers = [Layer(6, 6) for _ in range(4)]
    x = y = torch.randn(2, 6)
    for layer in layers:
        layer.compile(backend=compile_fx)
    for _ in range(2):
        for layer in layers:
            x, y = layer(x), layer.forward(y)
    assert_close(x, y, 8)
    (graph,) = graphs()
    assert len(graph.executors) == len(layers)


def test_weights_are_not_kept_when_the_model_goes():
    model = nn.Linear(8, 4)
    run = compiled(model)
    run(torch.randn(3, 8))
    (graph,) = graphs()
    assert len(graph.executors) == 1
    del model, run
    assert graph.executors == []


def test_weights_are_not_copied():
    model = nn.Embedding(1000, 16)
    run, x = compiled(model), torch.tensor([1, 999])
    run(x)
    (graph,) = graphs()
    assert graph.executors[0].program.packed_bytes == 0
    assert all(tensor.ByteSize() < 100 for tensor in graph.exported.proto.graph.initializer)


# ---------------------------------------------------------------------- graphs
def test_graph_breaks():
    def model(x):
        y = (x * 2).relu()
        torch._dynamo.graph_break()
        return y.t() @ y

    check(model, torch.randn(4, 5), count=2)


def test_threads_at_once():
    model = cnn()
    run = compiled(model)
    inputs = [torch.randn(2, 3, 32, 32) for _ in range(4)]
    wanted = [model(x) for x in inputs]
    run(inputs[0])
    failed = []

    def work(x, y):
        with torch.no_grad():
            for _ in range(20):
                try:
                    assert_close(run(x), y, 6)
                except BaseException as error:
                    failed.append(error)
                    raise

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, wanted, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    (graph,) = graphs()
    assert 1 <= len(graph.executors) <= len(threads)


def test_executors_can_be_looked_into(tmp_path):
    model = nn.Linear(8, 4)
    (graph,) = check(model, torch.randn(3, 8))
    (executor,) = graph.executors
    assert executor.bench(quiet=True)
    assert executor.trace(tmp_path) > 0
    assert "steps" in executor.dbg(quiet=True)
    assert repr(graph) == f"<CompiledGraph {graph.number}: nodes: {len(graph.exported.proto.graph.node)}, executors: 1>"


def test_inference_mode():
    model = nn.Linear(8, 4)
    run, x = compiled(model), torch.randn(3, 8)
    with torch.inference_mode():
        assert_close(run(x), model(x))
        inside = nn.Linear(8, 4)
        assert_close(compiled(inside)(x), inside(x))


# ---------------------------------------------------------------------- options and refusals
def test_options_are_those_of_the_compiler():
    model, x = cnn(), torch.randn(2, 3, 32, 32)
    run = compiled(
        model, num_threads=1, precision="exact", passes=["-fuse_elementwise"], allocator="plain", target="cpu"
    )
    assert_close(run(x), model(x), 6)
    (executor,) = graphs()[-1].executors
    assert (executor.num_threads, executor.allocator) == (1, "plain")


def test_threads_are_those_of_pytorch():
    model, before = nn.Linear(8, 4), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        (graph,) = check(model, torch.randn(3, 8))
    finally:
        torch.set_num_threads(before)
    assert graph.executors[0].num_threads == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precison": "f16"}, r"unknown options 'precison', expected some of: target, .*precision.*fallback"),
        ({"precision": "f12"}, "f12"),
        ({"passes": ["-nothing"]}, "nothing"),
        ({"fallback": 3}, "fallback: expected True or False, got 3"),
        ({"target": "tpu", "fallback": True}, "unknown target 'tpu'"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        compiled(nn.Linear(8, 4), **options)(torch.randn(3, 8))


def test_a_missing_gpu_is_told():
    if not missing_gpu():
        pytest.skip("there is a GPU")
    with pytest.raises(DeviceError):
        compiled(nn.Linear(8, 4), target="cuda", fallback=True)(torch.randn(3, 8))


def test_targets_are_where_the_tensors_are(monkeypatch):
    monkeypatch.setattr(torch_backend, "device_of", lambda examples: "cuda:0")
    with pytest.raises(InvalidInput, match="target 'cpu', but the tensors of the graph are on cuda:0"):
        compiled(nn.Linear(8, 4), target="cpu")(torch.randn(3, 8))


def test_tensors_are_in_one_place():
    from refactor_graph._torch_tensors import device_of

    host, scalar, meta = torch.zeros(2), torch.tensor(1.0), torch.zeros(2, device="meta")
    assert device_of([host, scalar, 3]) == "cpu"
    assert device_of([]) == "cpu"
    for tensors in ([meta], [host, meta]):
        with pytest.raises(Unsupported, match="meta, expected one: cpu or cuda"):
            device_of(tensors)


def test_modes_are_refused():
    run = torch.compile(nn.Linear(8, 4), backend=compile_fx, mode="max-autotune")
    with pytest.raises(InvalidInput, match="mode 'max-autotune' is one of inductor's"):
        run(torch.randn(3, 8))


def test_gradients_are_refused():
    model, x = nn.Linear(8, 4), torch.randn(3, 8)
    run = compiled(model)
    with torch.enable_grad():
        for _ in range(2):
            with pytest.raises(Unsupported, match=r"call the model under torch.no_grad\(\) or torch.inference_mode"):
                run(x)
        with torch.no_grad():
            assert_close(run(x), model(x))
        model.requires_grad_(False)
        assert_close(run(x), model(x))


def test_gradients_that_the_model_turns_off():
    model = nn.Linear(8, 4)

    def no_gradients(x):
        with torch.no_grad():
            return model(x)

    with torch.enable_grad():
        check(no_gradients, torch.randn(3, 8))


def test_gradients_in_eager_mode():
    model, x = nn.Linear(8, 4), torch.randn(3, 8)
    run = compiled(model, fallback=True)
    with torch.enable_grad():
        with pytest.warns(RuntimeWarning, match="a graph runs in eager mode: an input or parameter requires grad"):
            y = run(x)
        y.sum().backward()
    assert model.weight.grad is not None


def refused(x):
    return torch.linalg.eigvalsh(x @ x.t()) + torch.linalg.cholesky(x @ x.t() + torch.eye(4)).sum()


def test_every_operator_that_cannot_be_converted_is_named():
    with pytest.raises(Unsupported) as error:
        compiled(refused)(torch.randn(4, 4))
    assert [problem.split(" ")[1].strip("(,") for problem in error.value.problems] == [
        "aten._linalg_eigh.default",
        "aten.linalg_cholesky_ex.default",
    ]
    assert all(f"{Path(__file__).name}:" in problem for problem in error.value.problems)
    assert graphs() == []


def test_eager_mode_where_it_is_asked_for():
    x = torch.randn(4, 4)
    run = compiled(refused, fallback=True)
    with pytest.warns(RuntimeWarning, match="a graph runs in eager mode: the FX graph cannot be converted"):
        found = run(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_close(run(x), found)
    assert_close(found, refused(x), 4)
    (graph,) = graphs()
    assert "linalg_eigh" in str(graph.refusal)
    assert "eager" in repr(graph)
    assert graph.executors == []


def test_random_numbers_are_refused():
    model = nn.Sequential(nn.Linear(8, 4), nn.Dropout(0.5))
    with pytest.raises(Unsupported, match="takes random numbers from PyTorch's generator"):
        compiled(model)(torch.randn(3, 8))
    check(model.eval(), torch.randn(3, 8))


def test_complex_inputs_and_outputs_are_refused():
    with pytest.raises(Unsupported, match="inputs and outputs of complex numbers"):
        compiled(lambda x: x.abs())(torch.randn(3, dtype=torch.complex64))
    with pytest.raises(Unsupported, match="inputs and outputs of complex numbers"):
        compiled(torch.fft.rfft)(torch.randn(3, 8))
    check(lambda x: torch.fft.rfft(x).abs(), torch.randn(3, 8), depth=2)


def test_wrong_data_is_an_error_of_ours():
    run = compiled(nn.Embedding(10, 4))
    with pytest.raises(InvalidInput, match="11"):
        run(torch.tensor([1, 11]))


def test_refusals_of_the_compiler_name_both_nodes(monkeypatch):
    from refactor_graph import onnx

    def compile_none(self, *args, **options):
        name = next(node.name for node in self._loaded.proto.graph.node if node.op_type == "Relu")
        raise Unsupported("1 problem:", [f'"{name}" (Relu): no kernel'])

    monkeypatch.setattr(onnx.Compiler, "compile", compile_none)
    with pytest.raises(Unsupported, match=r'\(Relu\): no kernel\n    FX node "relu" \(torch.ops.aten.relu.default'):
        compiled(nn.Sequential(nn.Linear(8, 4), nn.ReLU()))(torch.randn(3, 8))


# ---------------------------------------------------------------------- the package
def python(code, *paths):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*map(str, paths), str(PACKAGES)])}
    command = [sys.executable, "-W", "error::ImportWarning", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_the_package_does_not_import_torch():
    done = python("import sys, refactor_graph, refactor_graph.onnx; assert 'torch' not in sys.modules")
    assert done.returncode == 0, done.stderr


def test_what_is_missing_is_told():
    code = (
        "import sys; sys.modules['onnxscript'] = None\nimport torch, refactor_graph.torch_backend as backend\n"
        "run = torch.compile(torch.nn.ReLU(), backend=backend.compile_fx)\n"
        "try:\n    run(torch.ones(2))\nexcept backend.Unsupported as error:\n    print(error)"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert "the torch.compile backend needs torch 2.13" in done.stdout
    assert "onnxscript" in done.stdout


def test_an_older_torch_is_told():
    code = (
        "import torch._dynamo.backends.common\n"
        "import torch.fx.experimental.symbolic_shapes as shapes; del shapes.has_guarding_hint\n"
        "torch.__version__ = '2.11.0'\n"
        "try:\n    import refactor_graph.torch_backend\nexcept ImportError as error:\n    print(error)"
    )
    assert "needs torch 2.13 or later, this is 2.11.0" in python(code).stdout


def test_the_backend_has_a_name_once_it_is_installed(tmp_path):
    """As an installer writes it: the entry points of pyproject.toml in the metadata of a distribution."""
    tomllib = pytest.importorskip("tomllib")
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    points = tomllib.loads(text)["project"]["entry-points"]["torch_dynamo_backends"]
    folder = tmp_path / "refactor_graph-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: refactor-graph\nVersion: 0\n")
    lines = [f"{name} = {target}" for name, target in points.items()]
    (folder / "entry_points.txt").write_text("\n".join(["[torch_dynamo_backends]", *lines, ""]))
    code = (
        "import torch; assert 'refactor_graph' in torch.compiler.list_backends();"
        "model = torch.nn.Linear(3, 2); x = torch.randn(4, 3);"
        "run = torch.compile(model, backend='refactor_graph', options={'num_threads': 1});"
        "torch.set_grad_enabled(False); assert torch.allclose(run(x), model(x), atol=1e-6);"
        "from refactor_graph.torch_backend import compiled_graphs; assert len(compiled_graphs()[0].executors) == 1"
    )
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr
