"""Steps of a decoder whose caches have room for more than they hold: outputs passed on by the caller, and carried.

    python benchmarks/caches.py [--capacity 4096] [--held 2000] [--layers 4] [--steps 30]

GroupQueryAttention of 32 heads of 64 that share 8, one query, one thread; every step appends a row to each cache.
onnxruntime runs the same steps, with caches passed as arrays and with buffers that inputs and outputs share.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper
from refactor_graph.onnx import make_compiler

HEADS, SHARED, DEPTH = 32, 8, 64

Feeds = dict[str, NDArray[np.generic]]


def build(layers: int) -> onnx.ModelProto:
    """Make a stack of attentions, each of which asks with the result of the one before."""
    value, f32 = helper.make_tensor_value_info, TensorProto.FLOAT
    inputs = [value("q", f32, [1, "S", HEADS * DEPTH]), *(value(n, f32, [1, "S", SHARED * DEPTH]) for n in "kv")]
    inputs += [value("last", TensorProto.INT32, [1]), value("mask", TensorProto.INT64, [1, "T"])]
    nodes = [
        helper.make_node("Shape", ["mask"], ["length"], start=1, end=2),
        helper.make_node("Cast", ["length"], ["total"], to=TensorProto.INT32),
    ]
    outputs, last = [], "q"
    for layer in range(layers):
        past, present = ([f"{name}.{part}.{layer}" for part in "kv"] for name in ("past", "present"))
        inputs += [value(name, f32, [1, SHARED, "P", DEPTH]) for name in past]
        outputs += [value(name, f32, [1, SHARED, "R", DEPTH]) for name in present]
        operands = [last, "k", "v", *past, "last", "total"]
        last = f"y{layer}"
        nodes.append(
            helper.make_node(
                "GroupQueryAttention",
                operands,
                [last, *present],
                domain="com.microsoft",
                num_heads=HEADS,
                kv_num_heads=SHARED,
            )
        )
    outputs.append(value(last, f32, [1, "S", HEADS * DEPTH]))
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(helper.make_graph(nodes, "caches", inputs, outputs), opset_imports=domains)
    proto.ir_version = 9
    return proto


def main() -> None:
    """Print the best and the median time of a step, and how far results are apart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("capacity", 4096), ("held", 2000), ("layers", 4), ("steps", 30)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    proto, random = build(options.layers), np.random.default_rng(1)
    states = {f"past.{part}.{i}": f"present.{part}.{i}" for i in range(options.layers) for part in "kv"}
    start: Feeds = {name: random.standard_normal((1, SHARED, options.capacity, DEPTH), np.float32) for name in states}
    result = f"y{options.layers - 1}"
    steps: list[Feeds] = []
    for i in range(options.held, options.held + options.steps):
        step: Feeds = {n: random.standard_normal((1, 1, SHARED * DEPTH), np.float32) for n in "kv"}
        step["q"] = random.standard_normal((1, 1, HEADS * DEPTH), np.float32)
        step["last"], step["mask"] = np.array([i], np.int32), np.ones((1, i + 1), np.int64)
        steps.append(step)

    ours = make_compiler(proto).compile("cpu", num_threads=1)
    carried = ours.clone()
    carried.carry(states)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    buffers = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in start.items()}
    caches = {"ours": dict(start), "theirs": dict(start)}

    def pass_on(engine: str, outputs: Feeds) -> NDArray[np.generic]:
        caches[engine] = {name: outputs[output] for name, output in states.items()}
        return outputs[result]

    def share(step: Feeds) -> NDArray[np.generic]:
        binding = session.io_binding()
        for name, array in step.items():
            binding.bind_cpu_input(name, array)
        for name, buffer in buffers.items():
            binding.bind_ortvalue_input(name, buffer)
            binding.bind_ortvalue_output(states[name], buffer)
        binding.bind_output(result)
        session.run_with_iobinding(binding)
        array: NDArray[np.generic] = binding.copy_outputs_to_cpu()[-1]
        return array

    ways: dict[str, Callable[[Feeds], NDArray[np.generic]]] = {
        "passed on": lambda step: pass_on("ours", ours({**step, **caches["ours"]})),
        "carried": lambda step: carried({**step, **(start if step is steps[0] else {})})[result],
        "onnxruntime, passed on": lambda step: pass_on(
            "theirs", dict(zip(names, session.run(None, {**step, **caches["theirs"]}), strict=True))
        ),
        "onnxruntime, buffers shared": share,
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    largest = 0.0
    for step in steps:
        results = []
        for way, call in ways.items():
            begin = time.perf_counter()
            results.append(np.array(call(step)))
            times[way].append(1e3 * (time.perf_counter() - begin))
        largest = max(largest, *(float(np.abs(r - results[0]).max()) for r in results))
    for way, all_times in times.items():
        rest = all_times[1:]
        print(f"{way:28} {min(rest):8.2f} ms  median {statistics.median(rest):8.2f}")
    print(f"results differ by at most {largest:.1e}")


if __name__ == "__main__":
    main()
