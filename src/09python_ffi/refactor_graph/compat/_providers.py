"""onnxruntime's execution providers, as far as there is a target for them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from refactor_graph._core import find_device
from refactor_graph._errors import DeviceError
from refactor_graph.compat._errors import EPFail

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"

Provider = str | tuple[str, Mapping[Any, Any]]
"""A name, or a name with options."""


class Placement(NamedTuple):
    """What a list of providers comes to.

    `providers` are those that are used, with their options; `targets` those of `Compiler.compile`; `ordinal` is the
    number of the CUDA device.
    """

    providers: dict[str, dict[str, str]]
    targets: list[str]
    ordinal: int


def get_all_providers() -> list[str]:
    """Return the providers that there is a target for."""
    return [CUDA, CPU]


def _missing_cuda(ordinal: int) -> str | None:
    try:
        find_device("nvidia", ordinal)
    except DeviceError as error:
        return str(error)
    return None


def get_available_providers() -> list[str]:
    """Return the providers whose device is present."""
    return [CPU] if _missing_cuda(0) else [CUDA, CPU]


def get_device() -> str:
    """Return "GPU" if there is one that models can run on, else "CPU"."""
    return "CPU" if _missing_cuda(0) else "GPU"


def _listed(
    providers: Sequence[Provider] | None, provider_options: Sequence[Mapping[Any, Any]] | None
) -> list[tuple[str, dict[str, str]]]:
    """Return names and options after the checks that onnxruntime does, with its messages."""
    if providers is None:
        return []
    if isinstance(providers, str) or not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    if provider_options is not None:
        if not isinstance(provider_options, Sequence):
            raise ValueError("'provider_options' should be a sequence.")
        if len(providers) != len(provider_options):
            raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
        if not all(isinstance(provider, str) for provider in providers):
            raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
        if not all(isinstance(options, Mapping) for options in provider_options):
            raise ValueError("'provider_options' values must be dicts.")
        providers = list(zip(map(str, providers), provider_options, strict=True))
    found: dict[str, dict[str, str]] = {}
    for provider in providers:
        pair = (provider, {}) if isinstance(provider, str) else provider
        form = isinstance(pair, tuple) and len(pair) == 2
        if not form or not isinstance(pair[0], str) or not isinstance(pair[1], Mapping):
            raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
        name, options = pair
        if name in found:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=4)
        else:
            found[name] = {str(key): str(value) for key, value in options.items()}
    return list(found.items())


def place(providers: Sequence[Provider] | None, provider_options: Sequence[Mapping[Any, Any]] | None) -> Placement:
    """Return where to run.

    A provider that is not known or not available is left out with a warning, and the CPU is used if none is left, as
    onnxruntime does. CUDA is the exception: where it is asked for alone and is not there, that is an error.

    Raises
    ------
    EPFail
        If CUDA is asked for alone and is not there; says what is missing.
    ValueError
        If the arguments are of another form.
    """
    listed = _listed(providers, provider_options)
    usable: dict[str, dict[str, str]] = {}
    ordinal = 0
    for name, options in listed:
        if name == CUDA:
            number = options.get("device_id", "0")
            ordinal = int(number) if number.isdigit() else 0
            missing = _missing_cuda(ordinal)
            if missing is None:
                usable[name] = options
            elif len(listed) == 1:
                raise EPFail(f"{CUDA} is the only provider asked for, and it is not available: {missing}")
            else:
                warnings.warn(f"{CUDA} is not available and left out: {missing}", stacklevel=4)
        elif name == CPU:
            usable[name] = options
        else:
            available = ", ".join(get_available_providers())
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names. Available providers: '{available}'",
                stacklevel=4,
            )
    usable = usable or {CPU: {}}
    return Placement(usable, ["cuda" if name == CUDA else "cpu" for name in usable], ordinal)
