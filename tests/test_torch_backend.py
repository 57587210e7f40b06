"""`torch.compile(model, backend="refactor_graph")` gives what eager mode gives, or says why not."""

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

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

import torch.nn.functional as F  # noqa: E402
from refactor_graph.torch_backend import compile_fx, compiled_graphs  # noqa: E402
from torch import nn  # noqa: E402

from tests.conftest import missing_gpu  # noqa: E402

PACKAGES = Path(refactor_graph.__file__).parents[1]
EPS = {torch.float64: 2.0**-52, torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}

_earlier = set()


@pytest.fixture(autouse=True)
def fresh():
    """Compile every test anew, under its own seed and without gradients; RNNs are Dynamo's experiment."""
    torch.compiler.reset()
    _earlier.update(graph.number for graph in compiled_graphs())
    torch.manual_seed(0)
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        yield
    torch.compiler.reset()


def graphs():
    """Graphs that this test has compiled: code objects of others may still hold theirs."""
    return [graph for graph in compiled_graphs() if graph.number not in _earlier]


def compiled(model, *, dynamic=None, **options):
    return torch.compile(model, backend=compile_fx, dynamic=dynamic, options=options or None)


def assert_close(found, wanted, depth=1):
    """Each tensor is within `depth` sums of some hundred products in another order: 16 roundings of the largest value.

    A sum of n products in two orders differs by up to n * eps of the sum of magnitudes, and by about sqrt(n) * eps in
    the mean: 16 is sqrt(256). `depth` is how many such sums follow each other.
    """
    assert type(found) is type(wanted)
    if isinstance(wanted, torch.Tensor):
        assert (found.dtype, found.shape, found.device) == (wanted.dtype, wanted.shape, wanted.device)
        if not wanted.is_floating_point() or not wanted.numel():
            assert torch.equal(found, wanted)
            return
        bound = 16 * depth * EPS[wanted.dtype] * wanted.double().abs().max().item()
        assert (found.double() - wanted.double()).abs().max().item() <= bound
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_close(one, other, depth)
    else:
        assert found == wanted


def check(model, *inputs, depth=1, count=1, **options):
    """Compare with eager mode, twice; returns the graphs."""
    before = len(graphs())
    run = compiled(model, **options)
    for _ in range(2):
        assert_close(run(*inputs), model(*inputs), depth)
    made = graphs()[before:]
    assert len(made) == count
    return made


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return F.relu(x + self.second(F.relu(self.norm(self.first(x)))))


def cnn():
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1),
        Residual(16),
        nn.MaxPool2d(2),
        Residual(16),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return model.eval()


# ---------------------------------------------------------------------- models
def test_convolutions_and_batch_norm():
    model = cnn()
    (graph,) = check(model, torch.randn(2, 3, 33, 35), depth=6)
    operators = {row.type for row in graph.executors[0].bench(quiet=True)}
    assert not any("norm" in operator.lower() for operator in operators), "weights are constants, so norms are folded"


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("mask", [None, "causal", "padding"])
def test_transformer_encoder_layer(norm_first, mask):
    model = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first, activation="gelu").eval()
    x = torch.randn(3, 7, 32)
    masks = {
        None: {},
        "causal": {"src_mask": nn.Transformer.generate_square_subsequent_mask(7)},
        "padding": {"src_key_padding_mask": torch.arange(7)[None] >= torch.tensor([[7], [4], [1]])},
    }
    assert_close(compiled(model)(x, **masks[mask]), model(x, **masks[mask]), 6)


@pytest.mark.parametrize("need_weights", [False, True])
def test_multi_head_attention(need_weights):
    model = nn.MultiheadAttention(24, 3, batch_first=True).eval()
    x = torch.randn(2, 5, 24)
    check(lambda x: model(x, x, x, need_weights=need_weights), x, depth=4)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_are_one_operator(kind):
    model = kind(6, 5, num_layers=2, bidirectional=True, batch_first=True).eval()
    (graph,) = check(model, torch.randn(3, 9, 6), depth=9)
    assert [node.op_type for node in graph.exported.proto.graph.node].count(kind.__name__) == 2


def bert():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    return transformers.BertModel(transformers.BertConfig(vocab_size=99, **sizes)).eval()


def test_bert_with_dynamic_batch_and_sequence():
    model = bert()
    run = compiled(model, dynamic=True)
    for batch, length in ((2, 7), (3, 11), (5, 4), (2, 7)):
        tokens = torch.randint(0, 99, (batch, length))
        mask = (torch.arange(length)[None] < torch.randint(1, length + 1, (batch, 1))).long()
        found, wanted = run(tokens, attention_mask=mask), model(tokens, attention_mask=mask)
        assert_close(found.last_hidden_state, wanted.last_hidden_state, 12)
        assert_close(found.pooler_output, wanted.pooler_output, 12)
    (graph,) = graphs()
    assert len(graph.executors) == 1


def test_gpt2_with_its_cache():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=99, n_positions=64, n_embd=32, n_layer=2, n_head=4)
    model = transformers.GPT2LMHeadModel(config).eval()
    run = compiled(model, dynamic=True)
    tokens = torch.randint(0, 99, (2, 5))
    found, wanted = run(tokens, use_cache=True), model(tokens, use_cache=True)
    for _ in range(4):
        assert_close(found.logits, wanted.logits, 12)
        step = wanted.logits[:, -1:].argmax(-1)
        found = run(step, past_key_values=found.past_key_values, use_cache=True)
        wanted = model(step, past_key_values=wanted.past_key_values, use_cache=True)
    assert_close(found.logits, wanted.logits, 12)
    assert graphs()


# ---------------------------------------------------------------------- values
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_types_of_numbers(dtype):
    model = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 5)).to(dtype).eval()
    check(model, torch.randn(3, 24).to(dtype), depth=2)


def test_bool_and_integers():
    def model(x, flag, index):
        return x[index], ~flag, index * 2, torch.where(flag, x[0], x[1]), (x > 0).sum()

    check(model, torch.randn(4, 3), torch.tensor([True, False, True]), torch.tensor([3, 0, 2]))


def test_inputs_of_any_memory_order():
    model = cnn()
    check(model, torch.randn(2, 30, 28, 3).permute(0, 3, 1, 2), depth=6)
    check(lambda x, y: x @ y, torch.randn(9, 7).t(), torch.randn(18, 8)[::2, ::2])
    check(lambda x: x + 1, torch.randn(3, 1).expand(3, 4))


def test_outputs_have_the_memory_order_of_eager_mode():
    def model(x):
        return (x + 1).transpose(0, 2), (x * 2).contiguous(memory_format=torch.channels_last), x.relu()

    run, x = compiled(model), torch.randn(2, 3, 4, 5)
    for found, wanted in zip(run(x), model(x), strict=True):
        assert torch.equal(found, wanted)
        assert found.stride() == wanted.stride()


def test_nothing_in_a_tensor():
    model = nn.Linear(4, 3)
    check(model, torch.randn(0, 4))
    check(lambda x, y: torch.cat([x, y]), torch.randn(0, 4), torch.randn(2, 4))


def test_outputs_that_are_inputs_none_or_numbers():
    def model(x, n):
        return x, None, x.shape[0], x + n, [x.shape[1] * 2, "text"], x + n

    run = compiled(model, dynamic=True)
    for rows in (3, 4, 5):
        x = torch.randn(rows, 6)
        found, wanted = run(x, rows + 7), model(x, rows + 7)
        assert found[0] is x
        assert_close(found, wanted)


def test_numbers_as_inputs_do_not_compile_anew():
    run = compiled(lambda x, n, scale: x[:n] * n + scale, dynamic=True)
    for n, scale in ((2, 0.5), (3, 1.5), (5, -2.25), (4, 1e-3)):
        x = torch.randn(8, 3)
        assert_close(run(x, n, scale), x[:n] * n + scale)
    assert len(graphs()) <= 2  # Dynamo takes the first float as a constant


def test_sizes_that_depend_on_each_other():
    def model(x, y):
        return torch.cat([x, x], 1) + y, x.reshape(-1, 2)

    run = compiled(model, dynamic=True)
    for rows, columns in ((3, 4), (5, 6), (2, 8)):
        x, y = torch.randn(rows, columns), torch.randn(rows, 2 * columns)
        assert_close(run(x, y), model(x, y))
    assert len(graphs()) == 1


def test_tensors_made_in_the_model():
    check(lambda x: x * torch.tensor([1.0, -2.0, 3.0]) + torch.arange(3) + torch.full((3,), 0.5), torch.randn(2, 3))


# ---------------------------------------------------------------------- memory
def test_outputs_stay_as_they_are():
    model = cnn()
    run = compiled(model)
    inputs = [torch.randn(2, 3, 32, 32) for _ in range(4)]
    outputs = [run(x) for x in inputs]
    copies = [y.clone() for y in outputs]
    outputs[0].fill_(7)
    for x, y, copy in zip(inputs[1:], outputs[1:], copies[1:], strict=True):
        run(x)
        assert torch.equal(y, copy)
        assert_close(y, model(x), 6)
    assert (outputs[0] == 7).all()


def test_inputs_may_change_after_the_call():
    run, x = compiled(lambda x: x + 1), torch.zeros(5)
    y = run(x)
    x.fill_(9)
    assert (y == 1).all()
    assert (run(x) == 10).all()


def test_views_of_inputs_stay_views():
    run, x = compiled(lambda x: (x.view(-1), x[1:], x * 2)), torch.randn(3, 4)
    flat, rows, _ = run(x)
    flat[0], rows[0, 0] = 5, 6
    assert x[0, 0] == 5
    assert x[1, 0] == 6


def test_inputs_are_written_to():
    def model(x, y):
        x.mul_(2).add_(y)
        return x.sum()

    run = compiled(model)
    found, wanted, y = torch.ones(3, 4), torch.ones(3, 4), torch.randn(4)
    for _ in range(3):
        assert_close(run(found, y), model(wanted, y))
        assert_close(found, wanted)


def test_batch_norm_in_training_mode():
    found, wanted = (nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5)).train() for _ in range(2))
    wanted.load_state_dict(found.state_dict())
    run = compiled(found)
    for _ in range(3):
        x = torch.randn(8, 6)
        assert_close(run(x), wanted(x), 4)
    for one, other in zip(found.state_dict().values(), wanted.state_dict().values(), strict=True):
        assert_close(one, other, 4)
    (graph,) = graphs()
    assert len(graph.executors) == 1, "what the graph writes to is no constant"


@pytest.mark.parametrize(
    "norm", [nn.BatchNorm2d(3, track_running_stats=False), nn.InstanceNorm2d(3), nn.GroupNorm(3, 3)]
)
def test_norms_without_statistics(norm):
    check(norm.train(), torch.randn(2, 3, 5, 4), depth=4)


class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("keys", torch.zeros(6, 4))

    def forward(self, x, position):
        self.keys[position] = self.linear(x)
        return self.keys.sum(0)


def test_cache_in_a_buffer():
    found, wanted = Cache(), Cache()
    wanted.load_state_dict(found.state_dict())
    run = compiled(found)
    for step in range(6):
        x, position = torch.randn(4), torch.tensor([step])
        assert_close(run(x, position), wanted(x, position), 2)
    assert_close(found.keys, wanted.keys)
    (graph,) = graphs()
    assert len(graph.executors) == 1


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


def test_complex_inputs_are_refused():
    with pytest.raises(Unsupported, match="complex"):
        compiled(lambda x: x * 2)(torch.randn(3, dtype=torch.complex64))


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
