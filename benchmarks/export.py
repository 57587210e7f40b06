"""Writes image models with random weights as ONNX files, for `run.py` to compare.

    python benchmarks/export.py DIR [timm:NAME[:SIZE] | torchvision:NAME[:SIZE] ...] [--exporter dynamo|script]

Needs torch and timm or torchvision, of which nothing is downloaded. Without names: one of each architecture below.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

import torch

# Each has operators or shapes that the others lack: group sizes, dilations, windows, squeezes, shuffles, gates.
ARCHITECTURES = [
    "timm:convnext_atto",
    "timm:swin_tiny_patch4_window7_224",
    "timm:efficientnet_b0",
    "timm:mobilenetv3_large_100",
    "timm:regnety_008",
    "timm:resnext50_32x4d",
    "timm:ghostnet_100",
    "timm:mobilevit_xs:256",
    "timm:mixer_s16_224",
    "timm:fastvit_t8:256",
    "timm:hrnet_w18_small",
    "timm:eva02_tiny_patch14_224",
    "timm:levit_128",
    "timm:xcit_nano_12_p16_224",
    "timm:inception_v3:299",
    "torchvision:shufflenet_v2_x1_0",
]


def build(spec: str) -> tuple[torch.nn.Module, int]:
    """Make the module that `package:name[:size]` names, in evaluation mode, and the size of its images."""
    package, name, *size = spec.split(":")
    if package == "timm":
        module = importlib.import_module("timm").create_model(name, pretrained=False)
    elif package == "torchvision":
        module = importlib.import_module("torchvision").models.get_model(name, weights=None)
    else:
        raise ValueError(f"{spec}: expected timm:NAME or torchvision:NAME, got package {package!r}")
    return module.eval(), int(size[0]) if size else 224


def randomise_statistics(module: torch.nn.Module) -> None:
    """Give batch normalisations means and variances that a fold has to get right."""
    for layer in module.modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm) and layer.running_mean is not None:
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.5, 1.5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", default=ARCHITECTURES)
    parser.add_argument("--exporter", choices=("dynamo", "script"), default="dynamo")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for spec in arguments.models:
        torch.manual_seed(0)
        path = arguments.folder / f"{spec.split(':')[1]}.onnx"
        with torch.no_grad():
            module, size = build(spec)
            randomise_statistics(module)
            torch.onnx.export(
                module,
                (torch.randn(1, 3, size, size),),
                str(path),
                dynamo=arguments.exporter == "dynamo",
                opset_version=18 if arguments.exporter == "dynamo" else 17,
                **({"external_data": False, "verbose": False} if arguments.exporter == "dynamo" else {}),
            )
        print(path, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
