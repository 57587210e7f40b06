"""Models for the tests of the pnnx reader: exported by the pnnx program, computed by torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

torch.set_grad_enabled(False)
# The fused operator that torch takes instead is none that pnnx knows.
torch.backends.mha.set_fastpath_enabled(False)

Tensors = tuple[torch.Tensor, ...]
_TYPES = {torch.float32: "f32", torch.int64: "i64"}


def export(module: nn.Module, folder: Path, inputs: Tensors, others: Tensors | None = None) -> Path:
    """Write a model with the sizes of `inputs`, unknown where `others` differ; returns the path without its ending."""
    torch.jit.trace(module, inputs, check_trace=False).save(str(folder / "model.pt"))
    command = [str(Path(sys.executable).parent / "pnnx"), "model.pt", "fp16=0"]
    for key, tensors in (("inputshape", inputs), ("inputshape2", others)):
        if tensors is not None:
            shapes = [f"[{','.join(map(str, t.shape))}]{_TYPES[t.dtype]}" for t in tensors]
            command.append(f"{key}={','.join(shapes)}")
    subprocess.run(command, cwd=folder, check=False, capture_output=True, timeout=120)
    return folder / "model"


def flat(outputs: Any) -> list[np.ndarray]:
    """Return outputs as a list, tuples in tuples flattened."""
    if isinstance(outputs, tuple | list):
        return [array for item in outputs for array in flat(item)]
    return [outputs.numpy()]


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *inputs: torch.Tensor) -> Any:  # noqa: D102
        return self._function(*inputs)


class Each(nn.Module):
    """Applies modules to the same input."""

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        self.each = nn.ModuleList(modules)

    def forward(self, x: torch.Tensor) -> tuple[Any, ...]:  # noqa: D102
        return tuple(module(x) for module in self.each)


def randomize(module: nn.Module, seed: int) -> nn.Module:
    """Give parameters and statistics values that a mistake shows in."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if tensor.dtype != torch.float32:
            continue
        tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.3)
        if name.endswith("running_var"):
            tensor.abs_().add_(0.5)
    return module.eval()


class Residual(nn.Module):
    """A small ResNet with depthwise blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.block = nn.Sequential(
            nn.Conv2d(16, 32, 1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU6(),
            nn.Conv2d(32, 32, 3, 1, 1, groups=32, bias=False),
            nn.BatchNorm2d(32),
            nn.Hardswish(),
            nn.Conv2d(32, 16, 1),
        )
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.SiLU(), nn.Conv2d(4, 16, 1), nn.Sigmoid()
        )
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.stem(x)
        y = self.block(x)
        x = torch.relu(x + y * self.gate(y))
        return self.head(x.mean((2, 3)))


class UNet(nn.Module):
    """Down, up, and a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.GELU())
        self.b = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.InstanceNorm2d(16), nn.LeakyReLU(0.1))
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(16, 2, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: D102
        a = self.a(x)
        b = self.b(a)
        c = torch.cat([a, self.up(b)], 1)
        return self.out(c), F.interpolate(b, size=x.shape[2:], mode="bilinear", align_corners=False)


class Vision(nn.Module):
    """A small vision transformer that splits its heads by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 24, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, 24))
        self.qkv, self.out, self.norm = nn.Linear(24, 72), nn.Linear(24, 24), nn.LayerNorm(24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        n, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, t, 3, 3, 8).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, c)
        return (x + self.out(y))[:, 0]


class Text(nn.Module):
    """An embedding, an encoder of torch with a causal mask, and a tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(30, 16), nn.Embedding(40, 16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return self.encoder(x) @ self.words.weight.t()


class Speech(nn.Module):
    """Recurrent layers over the rows of a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(6, 8, 3, 2, 1)
        self.lstm = nn.LSTM(8, 5, 2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(10, 7)
        self.rnn = nn.RNN(10, 3, nonlinearity="relu", bidirectional=True, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[Any, ...]:  # noqa: D102
        y, (h, c) = self.lstm(F.elu(self.conv(x)).transpose(1, 2))
        z, last = self.gru(y.transpose(0, 1))
        return y, h, c, z, last, self.rnn(y.transpose(0, 1))[0].log_softmax(-1)


class Tied(nn.Module):
    """A head that shares the embedding's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(30, 16), nn.LayerNorm(16)
        self.head = nn.Linear(16, 30, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.head(self.norm(self.words(ids)))


class Projected(nn.Module):
    """LSTMs whose states are projected, with and without an initial one."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.LSTM(8, 12, 2, bidirectional=True, proj_size=5)
        self.b = nn.LSTM(10, 6, batch_first=True, proj_size=3, bias=False)
        self.c = nn.LSTM(8, 7, 2, bidirectional=True, proj_size=4)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[Any, ...]:  # noqa: D102
        y, (ha, ca) = self.a(x)
        return y, ha, ca, *self.b(y), *self.c(x, (h, c))


class Sequence1(nn.Module):
    """Recurrent layers over one sequence, as ncnn has them."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 5, bidirectional=True, batch_first=True)
        self.projected = nn.LSTM(10, 9, proj_size=4, batch_first=True)
        self.gru = nn.GRU(4, 7, bidirectional=True, batch_first=True)
        self.rnn = nn.RNN(14, 3, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:  # noqa: D102
        y = self.lstm(x)[0]
        z = self.projected(y)[0]
        return z, self.rnn(self.gru(z)[0])[0]


def pick(*tensors: Sequence[int]) -> Tensors:
    """Random inputs of the given shapes, the same at every call."""
    generator = torch.Generator().manual_seed(sum(map(sum, tensors)))
    return tuple(torch.randn(*shape, generator=generator) for shape in tensors)


def ids(*shape: int) -> Tensors:
    """Random word numbers."""
    return (torch.randint(0, 30, shape, generator=torch.Generator().manual_seed(7)),)
