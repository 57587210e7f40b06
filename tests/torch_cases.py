"""Helpers of the tests of the `torch.compile` backend: models are compared with eager mode."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", "2.13")
pytest.importorskip("onnxscript")

import torch.nn.functional as F  # noqa: E402, N812
from refactor_graph import torch_backend  # noqa: E402
from refactor_graph.torch_backend import compile_fx, compiled_graphs  # noqa: E402
from torch import nn  # noqa: E402

EPS = {torch.float64: 2.0**-52, torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}

__all__ = ["F", "torch_backend"]  # for the tests, beside what is defined here

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
    """Compile with options of the backend."""
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
    """Two convolutions, batch normalisation and a short cut."""

    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return F.relu(x + self.second(F.relu(self.norm(self.first(x)))))


def cnn():
    """Make a small convolutional network with statistics of its own, for images [N, 3, H, W]."""
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
