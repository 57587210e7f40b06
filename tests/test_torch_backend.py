"""`torch.compile(model, backend="refactor_graph")` gives what eager mode gives."""

from __future__ import annotations

import pytest

from tests.torch_cases import F, assert_close, check, cnn, compiled, fresh, graphs, nn, torch

__all__ = ["fresh"]  # the fixture


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
OPERATORS = {
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True, scale=0.3),
    "gather": lambda x: (x.gather(1, torch.tensor([[0, 2], [1, 1]])[..., None, None].expand(2, 2, 6, 8)), x.flip(2)),
    "index_put": lambda x: x.index_put((torch.tensor([1, 0]), torch.tensor([2, 2])), x[:, 0]),
    "integers": lambda x: (x.long() // 3, x.long() % 3, x.long() / 3, x.int() & 3, ~x.int()),
    "interpolate": lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear", align_corners=False),
    "joined": lambda x: (torch.stack([x, -x]), torch.cat([x, x], 2), x.repeat(1, 2, 1, 1), x.chunk(3, 3)),
    "norms": lambda x: (F.layer_norm(x, (8,)), F.rms_norm(x, (8,)), F.group_norm(x, 3), x.std(1), x.norm(dim=2)),
    "order": lambda x: (*x.sort(2), *x.topk(3, 3), x.argmax(1), *x.max(1)),
    "pools": lambda x: (F.avg_pool2d(x, 3, 2, 1), F.max_pool2d(x, 2), F.adaptive_avg_pool2d(x, (4, 3))),
    "remainders": lambda x: (torch.remainder(x, -0.7), torch.fmod(x, 0.7)),
    "same": lambda x: (lambda y: (y, y, y.relu()))(x + 1),
    "sums": lambda x: (x.sum(), x.mean((1, 2)), x.cumsum(1), x.logsumexp(3), x.var(0), (x > 0).sum(1)),
    "where": lambda x: (torch.where(x > 0, 1.0, 0.0), x.masked_fill(x < 0, -1), x.clamp(-0.5), x.abs() ** 2.5),
    "windows": lambda x: (
        F.unfold(x, 3),
        F.pad(x, (1, 2, 0, 1), mode="reflect"),
        F.pixel_shuffle(x.flatten(0, 1)[:4], 2),
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    check(OPERATORS[name], torch.randn(2, 3, 6, 8), depth=2)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_types_of_numbers(dtype):
    model = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 5)).to(dtype).eval()
    check(model, torch.randn(3, 24).to(dtype), depth=2)
    check(lambda x: (x.sum(0), x.mean(1) + 1, x.softmax(1)), torch.randn(5, 4).to(dtype))


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


def test_outputs_have_memory_of_their_own():
    y, flat, rows = compiled(lambda x: (lambda y: (y, y.view(-1), y[1:]))(x + 1))(torch.zeros(3, 4))
    y.fill_(5)
    assert (flat == 1).all()
    assert (rows == 1).all()


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
