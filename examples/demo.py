"""Read a line of printed text with a real network, PP-OCRv4's recogniser, and compare with onnxruntime.

    python examples/demo.py [PICTURE]

The model comes with its weights from the PyPI package rapidocr-onnxruntime (Apache-2.0), which is downloaded once into
the cache folder ($REFACTOR_GRAPH_CACHE, by default ~/.cache/refactor_graph).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image
from refactor_graph.onnx import make_compiler

WHEEL = "rapidocr-onnxruntime==1.4.4"
MODEL = "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"
HEIGHT, SMALLEST_WIDTH = 48, 320  # what the network was trained on
RUNS = 15


def fetch_model() -> Path:
    """Return the path of the model, downloading the wheel that holds it if it is not in the cache."""
    cache = Path(os.environ.get("REFACTOR_GRAPH_CACHE", Path.home() / ".cache" / "refactor_graph"))
    path = cache / Path(MODEL).name
    if path.exists():
        return path
    cache.mkdir(parents=True, exist_ok=True)
    print(f"downloading {WHEEL} from PyPI …")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    # The wheel is pure Python, but it refuses some versions of Python: only its model is wanted here.
    command += ["--only-binary=:all:", "--python-version", "3.11", "--dest", str(cache), WHEEL]
    subprocess.run(command, check=True)
    (wheel,) = cache.glob("rapidocr_onnxruntime-1.4.4-*.whl")
    unfinished = path.with_suffix(".part")
    with zipfile.ZipFile(wheel) as archive:
        unfinished.write_bytes(archive.read(MODEL))
    unfinished.replace(path)
    wheel.unlink()
    return path


def read_picture(path: Path) -> np.ndarray:
    """Return the picture as f32[1, 3, 48, width]: BGR, -1 to 1, padded with 0."""
    picture = Image.open(path).convert("RGB")
    width = max(1, round(picture.width * HEIGHT / picture.height))
    pixels = np.asarray(picture.resize((width, HEIGHT), Image.Resampling.BILINEAR), np.float32)
    batch = np.zeros((1, 3, HEIGHT, max(width, SMALLEST_WIDTH)), np.float32)
    batch[0, :, :, :width] = pixels[:, :, ::-1].transpose(2, 0, 1) / 127.5 - 1
    return batch


def decode(probabilities: np.ndarray, characters: list[str]) -> tuple[str, float]:
    """Greedy CTC: the best class of every position, repetitions merged, blanks (class 0) dropped; and its mean score.

    probabilities: f32[positions, classes].
    """
    best = probabilities.argmax(axis=1)
    keep = (best != 0) & (best != np.concatenate([[-1], best[:-1]]))
    score = float(probabilities.max(axis=1)[keep].mean()) if keep.any() else 0.0
    return "".join(characters[index] for index in best[keep]), score


def main() -> None:
    """Run the demo."""
    picture = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "printed_line.png"
    model = fetch_model()
    image = read_picture(picture)

    start = time.perf_counter()
    compiler = make_compiler(model)
    executor = compiler.compile("cpu", num_threads=1)
    loaded = time.perf_counter() - start
    characters = ["", *compiler.metadata["character"].splitlines(), " "]
    (name,) = (port.name for port in executor.inputs)
    (output,) = (port.name for port in executor.outputs)
    text, score = decode(executor({name: image})[output][0], characters)
    print(f"{picture.name}, {image.shape[3]} pixels wide, model loaded in {loaded * 1e3:.0f} ms")
    print(f"\n    {text}\n\n(mean score {score:.3f})\n")

    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    engines = {
        "refactor_graph": lambda: executor({name: image}),
        "onnxruntime": lambda: session.run(None, {name: image}),
    }
    times: dict[str, list[float]] = {engine: [] for engine in engines}
    session.run(None, {name: image})
    for _ in range(RUNS):  # in turns, so that both see the same machine
        for engine, run in engines.items():
            start = time.perf_counter()
            run()
            times[engine].append(time.perf_counter() - start)
    for engine, values in times.items():
        print(f"{engine:15} {np.median(values) * 1e3:7.2f} ms (median of {RUNS}, 1 thread)")
    difference = np.abs(executor({name: image})[output] - session.run(None, {name: image})[0]).max()
    print(f"largest difference of a probability: {difference:.1e}\n\nthe five most expensive operators:")

    executor.set_input(0, image)
    table = executor.bench(repeats=5, quiet=True)
    print(table.slowest(5).format(table.nanoseconds))


if __name__ == "__main__":
    main()
