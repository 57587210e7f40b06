"""The command `refactor-graph`.

A subcommand prints its answer to the standard output. The exit status is 0, or 1 if the answer is no (a model that
cannot run, results that differ), or 2 for an error.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import refactor_graph
from refactor_graph import _core
from refactor_graph._check import summary
from refactor_graph._cli_data import difference, leaves, make_inputs, parse_sizes, read_inputs
from refactor_graph._doctor import examine_gpu
from refactor_graph._errors import DeviceError, Error, InvalidInput
from refactor_graph._operators import supported_ops
from refactor_graph._saved_file import is_saved
from refactor_graph.bisect import find_pass
from refactor_graph.onnx import Compiler, check, make_compiler

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from refactor_graph.executor import Executor


_COMPILED = ("passes", "precision", "weights", "tune", "target")
"""Options that decide how a model is compiled."""


def _load(options: argparse.Namespace) -> tuple[Executor, dict[str, NDArray[Any]]]:
    for name in _COMPILED:
        if getattr(options, name) != options.defaults[name]:
            raise InvalidInput(f"--{name}: {options.model} was compiled when it was saved")
    executor = refactor_graph.load(options.model, options.allocator, num_threads=options.threads)
    symbols = {str(size) for port in executor.inputs for size in port.shape or () if not isinstance(size, int)}
    sizes = parse_sizes(options.dim, sorted(symbols))
    return executor, make_inputs(executor.inputs, sizes, read_inputs(options.input, executor.inputs, sizes))


def _compile(options: argparse.Namespace, compiler: Compiler) -> Executor:
    return compiler.compile(
        options.target,
        options.allocator,
        options.passes,
        num_threads=options.threads,
        precision=options.precision,
        weights=options.weights,
        tune=options.tune,
    )


def _prepare(options: argparse.Namespace) -> tuple[Executor, dict[str, NDArray[Any]]]:
    if is_saved(options.model):
        return _load(options)
    compiler = make_compiler(options.model)
    sizes = parse_sizes(options.dim, compiler.variables)
    files = read_inputs(options.input, compiler.inputs, sizes)
    if options.tune != "none":
        for name, size in sizes.items():
            compiler.substitute(name, size)
    return _compile(options, compiler), make_inputs(compiler.inputs, sizes, files)


def _save(options: argparse.Namespace) -> int:
    compiler = make_compiler(options.model)
    for name, size in parse_sizes(options.dim, compiler.variables).items():
        compiler.substitute(name, size)
    _compile(options, compiler).save(options.file)
    print(f"{options.file}: {Path(options.file).stat().st_size / 1e6:.1f} MB")
    return 0


def _check(options: argparse.Namespace) -> int:
    results = {model: check(model, target=options.target) for model in options.models}
    if options.json:
        print(json.dumps({model: [asdict(item) for item in problems] for model, problems in results.items()}, indent=1))
        return int(any(results.values()))
    for model, problems in results.items():
        print(f"{model}: {summary(problems) if problems else 'ok'}")
        for problem in problems:
            print(f"  {problem}")
    return int(any(results.values()))


def _ops(options: argparse.Namespace) -> int:
    found = [item for item in supported_ops() if options.name in ("", item.name)]
    for item in found:
        ranges = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in item.versions)
        print(f"{item.domain} {item.name}: {ranges}{'' if item.native else ' (expanded)'}")
    return int(not found)


def _run(options: argparse.Namespace) -> int:
    executor, inputs = _prepare(options)
    for output, value in executor(inputs).items():
        if not isinstance(value, np.ndarray):
            print(f"{output}: {type(value).__name__}{f' of {len(value)}' if hasattr(value, '__len__') else ''}")
        for name, array in leaves(output, value):
            finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
            span = f", {finite.min()} to {finite.max()}" if finite.size and finite.dtype.kind in "iuf" else ""
            print(f"{name}: {array.dtype}{list(array.shape)}{span}")
            if options.save:
                folder = Path(options.save)
                folder.mkdir(parents=True, exist_ok=True)
                file = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
                np.save(folder / f"{file}.npy", array.astype(str) if array.dtype == object else array)
    return 0


def median_times(engines: dict[str, Callable[[], object]], runs: int) -> dict[str, float]:
    """Return the median seconds of a call of every engine, measured in turns so that all see the same machine."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    for call in engines.values():
        call()
    for _ in range(runs):
        for name, call in engines.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in times.items()}


def _bench(options: argparse.Namespace) -> int:
    executor, inputs = _prepare(options)
    for name, seconds in median_times({"refactor_graph": lambda: executor(inputs)}, options.runs).items():
        print(f"{name}: {seconds * 1e3:.3f} ms (median of {options.runs}, {executor.num_threads} threads)")
    table = executor.bench(repeats=min(options.runs, 10), quiet=True)
    rows = table.slowest(options.top) if options.top else table
    print(rows.format(table.nanoseconds))
    return 0


def _onnxruntime(
    options: argparse.Namespace, inputs: dict[str, NDArray[Any]], threads: int, optimise: bool
) -> tuple[dict[str, Any], Callable[[], object]]:
    """Return outputs of onnxruntime by name, and what runs it again."""
    if util.find_spec("onnxruntime") is None:
        raise InvalidInput(f"{options.command} needs the package onnxruntime, which is not installed")
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 3
    if not optimise:
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(options.model, settings, providers=["CPUExecutionProvider"])
        wanted = {item.name for item in session.get_inputs()}
        feed = {name: array for name, array in inputs.items() if name in wanted}
        results = session.run(None, feed)
    except Exception as error:  # its types have no base of their own
        raise InvalidInput(f"{options.command}: onnxruntime cannot run the model: {error}") from None
    names = [item.name for item in session.get_outputs()]
    return dict(zip(names, results, strict=True)), lambda: session.run(None, feed)


def _compare(options: argparse.Namespace) -> int:
    executor, inputs = _prepare(options)
    theirs, again = _onnxruntime(options, inputs, executor.num_threads, optimise=True)
    ours = executor(inputs)
    status = 0
    for output, reference in theirs.items():
        mine, other = dict(leaves(output, ours[output])), dict(leaves(output, reference))
        if mine.keys() != other.keys():
            print(f"{output}: DIFFERENT, {len(mine)} and {len(other)} tensors")
            status = 1
        for name in mine.keys() & other.keys() if mine.keys() != other.keys() else mine:
            same, worst = difference(mine[name], other[name], options.rtol, options.atol)
            verdict = "equal" if same else "DIFFERENT"
            shapes = f"shape {mine[name].shape} and {other[name].shape}"
            print(f"{name}: {verdict}, largest difference {worst:.3g}, {shapes}")
            status |= not same
    engines = {"refactor_graph": lambda: executor(inputs), "onnxruntime": again}
    for name, seconds in median_times(engines, 15).items():
        print(f"{name}: {seconds * 1e3:.3f} ms")
    return int(status)


def _bisect(options: argparse.Namespace) -> int:
    compiler = make_compiler(options.model)
    sizes = parse_sizes(options.dim, compiler.variables)
    inputs = make_inputs(compiler.inputs, sizes, read_inputs(options.input, compiler.inputs, sizes))
    wanted = None
    if options.reference == "onnxruntime":
        wanted, _ = _onnxruntime(options, inputs, options.threads, optimise=False)
    finding = find_pass(
        compiler,
        inputs,
        options.tolerance,
        wanted=wanted,
        target=options.target,
        num_threads=options.threads,
        precision=options.precision,
        weights=options.weights,
    )
    print(finding)
    return int(finding.error > options.tolerance)


def _inspect(options: argparse.Namespace) -> int:
    compiler = make_compiler(options.model)
    for title, ports in (("input", compiler.inputs), ("output", compiler.outputs)):
        for port in ports:
            print(f"{title} {port!r}")
    print(f"variables: {', '.join(compiler.variables) or 'none'}")
    for key, value in compiler.metadata.items():
        print(f"metadata {key}: {value[:100]!r}")
    executor = compiler.compile(options.target, options.allocator, options.passes, num_threads=options.threads)
    executor.dbg()
    return 0


def _trace(options: argparse.Namespace) -> int:
    executor, inputs = _prepare(options)
    for name, array in inputs.items():
        executor.set_input(name, array)
    print(f"{executor.trace(options.directory, 'npy')} tensors written to {options.directory}")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    if options.device:
        return int(examine_gpu(options.device, lambda text: print(text, flush=True)) > 0)
    print(f"refactor_graph {refactor_graph.__version__}, Python {platform.python_version()}, {platform.platform()}")
    for package in ("numpy", "onnx", "ml_dtypes", "onnxruntime"):
        try:
            print(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            print(f"{package} is not installed")
    print(f"threads by default: {_core.default_thread_count()} (of {os.cpu_count()} processors)")
    lowered = os.environ.get("REFACTOR_GRAPH_ISA")
    print(f"instruction set: {_core.instruction_set()}{' (REFACTOR_GRAPH_ISA)' if lowered else ''}")
    f32, int8, bf16 = _core.measure_peak()
    rates = [f"{f32 / 1e9:.0f} GFLOP/s in f32", f"{int8 / 1e9:.0f} GOP/s in int8"]
    rates += [f"{bf16 / 1e9:.0f} GFLOP/s in bf16"] if bf16 else []
    print(f"one thread reaches {', '.join(rates)} on registers alone")
    print(f"newest operator set: {_core.newest_opset()}")
    print(f"passes: {', '.join(refactor_graph.pass_names())}")
    for kind in ("cpu", "nvidia"):
        try:
            device = _core.find_device(kind, 0)
            free, total = device.memory()
            print(f"{kind}: {device.name}, {free >> 20} of {total >> 20} MiB free")
            for library in device.libraries:
                print(f"{kind}: {library}")
        except DeviceError as error:
            print(f"{kind}: {error}")
    return 0


_Action = Callable[[argparse.Namespace], int]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, got {text!r}")
    return int(text)


def _add_common(command: argparse.ArgumentParser, model: bool, data: bool, inputs: bool) -> None:
    if model:
        command.add_argument("model", help="an ONNX file, for run, bench and trace also a saved model")
        command.add_argument("--allocator", default="default")
        command.add_argument("--passes", type=lambda text: text.split(","), default=[], help="comma-separated")
        command.add_argument("--threads", type=int, default=0)
    if data:
        command.add_argument("--dim", action="append", default=[], metavar="NAME=N", help="size of a symbol")
        if inputs:
            command.add_argument("--input", action="append", default=[], metavar="NAME=FILE.npy")
        command.add_argument("--precision", default="default", help="default, exact, f32, tf32, f16, bf16, fp8 or int8")
        command.add_argument(
            "--weights", default="default", help="default, f32, f16, bf16, int8, int4, f8e4m3fn or f8e5m2"
        )
        command.add_argument("--tune", default="none", help="none, quick or cached: measured choices of kernels")
    command.add_argument("--target", default="cpu")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="refactor-graph", description=refactor_graph.__doc__)
    parser.add_argument("--version", action="version", version=refactor_graph.__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    def add(
        name: str, action: _Action, text: str, *, model: bool = True, data: bool = True, inputs: bool = True
    ) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
        _add_common(command, model, data, inputs)
        command.set_defaults(action=action, defaults={name: command.get_default(name) for name in _COMPILED})
        return command

    command = add("check", _check, "list every reason why models cannot run", model=False, data=False)
    command.add_argument("models", nargs="+", help="ONNX files")
    command.add_argument("--json", action="store_true", help="print the problems as data")
    command = add("ops", _ops, "list the supported operators and their versions", model=False, data=False)
    command.add_argument("name", nargs="?", default="", help="one operator")
    command = add("run", _run, "run a model on random or given inputs")
    command.add_argument("--save", metavar="DIR", help="write the outputs as .npy")
    command = add("bench", _bench, "time a model and its operators")
    command.add_argument("--runs", type=_count, default=20)
    command.add_argument("--top", type=_count, default=0, metavar="N", help="only the N slowest steps")
    command = add("compare", _compare, "compare results and time with onnxruntime")
    command.add_argument("--rtol", type=float, default=1e-3)
    command.add_argument("--atol", type=float, default=1e-4)
    command = add("save", _save, "compile a model and write it to a file that loads without compiling", inputs=False)
    command.add_argument("file", help="where to write it")
    command = add("bisect", _bisect, "find the pass with which the outputs of a model change")
    command.add_argument("--tolerance", type=float, default=1e-3, help="of errors over the largest magnitude")
    command.add_argument(
        "--reference",
        choices=["unoptimised", "onnxruntime"],
        default="unoptimised",
        help="whose outputs are right: those of the model without passes (the default), or of onnxruntime without any",
    )
    add("inspect", _inspect, "show inputs, outputs, passes and steps", data=False)
    command = add("trace", _trace, "run a model and write every tensor to a folder")
    command.add_argument("directory")
    command = add("doctor", _doctor, "show versions, threads and devices", model=False, data=False)
    command.add_argument("--device", metavar="cuda", help='try a GPU out instead: "cuda", "cuda:1"')
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.action(options))
    except (Error, OSError, MemoryError) as error:
        print(f"refactor-graph: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
