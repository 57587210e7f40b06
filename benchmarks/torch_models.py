"""Models as PyTorch modules with random weights, for `cuda.py`; nothing is downloaded."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Case:
    """A module in evaluation mode, its arguments (f32 and integers, on the CPU), and names for the inputs."""

    module: nn.Module | None
    """None if the model is a file alone."""
    arguments: tuple[torch.Tensor, ...]
    names: tuple[str, ...]
    onnx: Path | None = None
    """The same model as a file with fixed sizes, if there is one already."""
    tokens: int = 0
    """Tokens that a call makes, if it makes any."""


class Residual(nn.Module):
    """Two convolutions beside a short cut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.second, self.second_norm = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        same = stride == 1 and inputs == outputs
        self.short = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(y)) + self.short(x))


class ResidualNetwork(nn.Module):
    """ResNet-18."""

    def __init__(self) -> None:
        super().__init__()
        widths = (64, 64, 128, 256, 512)
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        self.pool = nn.MaxPool2d(3, 2, 1)
        blocks = [
            Residual(widths[i] if k == 0 else widths[i + 1], widths[i + 1], 2 if i and k == 0 else 1)
            for i in range(4)
            for k in range(2)
        ]
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(512, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.pool(self.stem(x))).mean((2, 3)))


class Layer(nn.Module):
    """A transformer layer; with a cache of keys and values it takes one more token."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm0, self.norm1 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        batch, length, width = x.shape
        split = self.qkv(self.norm0(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal and past is None)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm1(x)), approximate="tanh")), k, v


class Encoder(nn.Module):
    """The size of BERT base, without its embedding."""

    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads, False) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)[0]
        return x


class Decoder(nn.Module):
    """The size of GPT-2: one token after `past` in the cache."""

    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12, vocabulary: int = 50257) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(1024, width)
        self.layers = nn.ModuleList(Layer(width, heads, True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor, positions: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, cache = self.token(ids) + self.position(positions), []
        for i, layer in enumerate(self.layers):
            x, k, v = layer(x, (past[2 * i], past[2 * i + 1]))
            cache += [k, v]
        return (self.head(self.norm(x)), *cache)


class Recurrent(nn.Module):
    """Two bidirectional LSTM layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(80, 256, 2, batch_first=True, bidirectional=True), nn.Linear(512, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(x)[0]).log_softmax(-1)


class Perceptron(nn.Module):
    """So little work that launching it is all."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(m for _ in range(12) for m in (nn.Linear(128, 128), nn.ReLU())))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def decoder(batch: int, past: int = 512) -> Case:
    module = Decoder()
    cache = [torch.randn(batch, 12, past, 64) for _ in range(24)]
    ids = torch.randint(0, 50257, (batch, 1))
    names = ("ids", "positions", *(f"past{i}" for i in range(24)))
    return Case(module.eval(), (ids, torch.full((batch, 1), past), *cache), names, tokens=batch)


def plain(module: Callable[[], nn.Module], *shape: int) -> Callable[[int], Case]:
    return lambda batch: Case(module().eval(), (torch.randn(batch, *shape),), ("x",))


BUILT_IN: dict[str, Callable[[int], Case]] = {
    "residual_network": plain(ResidualNetwork, 3, 224, 224),
    "encoder": plain(Encoder, 128, 768),
    "decoder": decoder,
    "recurrent": plain(Recurrent, 100, 80),
    "perceptron": plain(Perceptron, 128),
}


def zoo_cases(script: Path) -> dict[str, Callable[[int], Case]]:
    """Models of a zoo: a script with `SPECS`, `torch_module(name, batch)`, `make_inputs` and `static_model`.

    What has no module is a file alone; a file that cannot be had is a LookupError.
    """
    spec = importlib.util.spec_from_file_location("zoo", script)
    if not spec or not spec.loader:
        raise SystemExit(f"{script} is no Python file")
    zoo: Any = importlib.util.module_from_spec(spec)
    sys.modules["zoo"] = zoo
    spec.loader.exec_module(zoo)

    def make(name: str) -> Callable[[int], Case]:
        def case(batch: int) -> Case:
            inputs = zoo.make_inputs(name, batch)
            try:
                path = Path(zoo.static_model(name, batch))
            except FileNotFoundError as error:
                raise LookupError(f"{name}: {error}") from error
            module, arguments = zoo.torch_module(name, batch) or (None, map(torch.from_numpy, inputs.values()))
            tokens = batch if name.endswith("_decode") else 0
            return Case(module and module.eval(), tuple(arguments), tuple(inputs), path, tokens)

        return case

    return {name: make(name) for name in zoo.SPECS}
