"""The fuzzer: a short campaign, and tests of its own judgement."""

import subprocess
import sys

import numpy as np
import pytest

from tests.fuzz import graph as graphs
from tests.fuzz import judge as fuzz_judge
from tests.fuzz.generate import generate, supported
from tests.fuzz.judge import Verdict, identical, judge, resized
from tests.fuzz.operators import GENERATORS, IN_MOTIFS
from tests.fuzz.oracle import difference, evaluate
from tests.fuzz.pool import judge_apart
from tests.fuzz.reduce import reduce

SEED = 20261121
WITHOUT_ORACLE = {
    *("Affine", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh", "SwiGLU"),
    *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
    "SimplifiedLayerNormalization",
}
"""Random operators, and those that the standard has dropped: there is nothing to compare them with."""
WITHOUT_GENERATOR = 2
"""Fewer supported operators than this may have an oracle, but no generator."""

pytestmark = pytest.mark.usefixtures("onnxruntime")


@pytest.fixture(scope="module")
def onnxruntime():
    return pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_a_short_campaign_finds_nothing(first):
    for index in range(first, first + 20):
        graph = generate(SEED, index)
        verdict = judge(graph) if graph.nodes else Verdict("refused")
        text = f"python -m tests.fuzz --seed {SEED} --first {index} --count 1\n{graph.describe()}"
        assert not verdict.finding, f"{verdict.kind}: {verdict.detail}\n{text}"


def test_graphs_are_reproducible():
    for index in range(10):
        assert generate(SEED, index).describe() == generate(SEED, index).describe()
    assert generate(SEED, 0).describe() != generate(SEED + 1, 0).describe()


def test_graphs_are_legal_and_their_values_right():
    for index in range(40):
        graph = generate(SEED, index)
        if not graph.nodes:
            continue
        for name, array in evaluate(graph).items():
            assert identical(array, graph.values[name]), f"graph {index}, {name}"


def test_every_generator_works_somewhere():
    seen = set()
    for index in range(250):
        seen |= {node.op_type for node in generate(SEED, index).nodes}
    possible = {name for name in GENERATORS if not name.startswith("*")} & supported()
    assert len(possible - seen) < 0.2 * len(possible), sorted(possible - seen)
    missing = supported() - GENERATORS.keys() - IN_MOTIFS - WITHOUT_ORACLE
    assert len(missing) < WITHOUT_GENERATOR, sorted(missing)


# ---------------------------------------------------------------------- judgement
def _graph():
    """x, c → Mul → Add x → Relu, and a Neg beside it."""
    draft = graphs.Draft(np.random.default_rng(3), 17)
    x = draft.new(graphs.F32, (3, 5), False)
    (product,) = draft.add("Mul", [x, draft.new(graphs.F32, (5,), True)])
    (total,) = draft.add("Add", [product, x])
    draft.add("Relu", [total])
    draft.add("Neg", [x])
    draft.graph.outputs = ["t2", "t3"]
    return draft.graph


def test_right_results_pass():
    assert judge(_graph()).kind == "passed"


def test_wrong_values_are_noticed(monkeypatch):
    graph = _graph()
    results = {name: graph.values[name].copy() for name in graph.outputs}
    monkeypatch.setattr("tests.fuzz.judge.run", lambda executor, graph: results)
    assert judge(graph).kind == "passed"
    results["t2"].reshape(-1)[7] += np.float32(1e-3)
    verdict = judge(graph)
    assert (verdict.kind, verdict.finding) == ("wrong", True)
    assert "t2: 1 of 15 elements differ, first at [1, 2]" in verdict.detail


def test_weights_are_finite():
    """What is multiplied with padding or with a first state, which oracles leave out or not."""
    seen = 0
    for seed in range(60):
        for op in ("Conv", "ConvTranspose", "GRU", "LSTM", "RNN"):
            draft = graphs.Draft(np.random.default_rng(seed), 21)
            draft.special = True
            try:
                GENERATORS[op](draft, op)
            except graphs.Reject:
                continue
            for name in draft.graph.nodes[-1].input[1 : 2 if "Conv" in op else 3]:
                assert np.isfinite(draft.value(name)).all(), f"{op}, seed {seed}"
            seen += 1
    assert seen > 100


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda array: array * np.float32(1 + 1e-7), None),
        (lambda array: array * np.float32(1 + 1e-4), "differ"),
        (lambda array: -array, "differ"),
        (lambda array: array.astype(np.float64), "float64"),
        (lambda array: array.reshape(-1), r"\[15\] instead of"),
        (lambda array: np.where(array == array.max(), np.float32(np.nan), array), "1 of 15 elements differ"),
        (lambda array: list(array), "list"),
    ],
)
def test_differences(change, word):
    wanted = np.random.default_rng(1).standard_normal((3, 5), np.float32)
    found = difference(change(wanted), wanted, [])
    assert (found is None) if word is None else pytest.importorskip("re").search(word, found)


def test_flips_of_a_disturbed_comparison_are_no_difference():
    wanted, flipped = np.array([True, False, True]), np.array([True, True, True])
    assert difference(flipped, wanted, [flipped]) is None
    assert difference(~wanted, wanted, [flipped]) is not None


def test_other_sizes_are_tried(monkeypatch):
    graph = _graph()
    graph.symbolic = True
    other = resized(graph)
    assert other is not None
    assert other.values["x0"].shape == (4, 5)  # 5 cannot change: the constant has it, too
    assert judge(graph).kind == "passed"
    plain = fuzz_judge.run

    def forgetful(executor, graph):
        results = plain(executor, graph)
        if len(graph.values["x0"]) != 3:
            results["t3"] = results["t3"][:3]
        return results

    monkeypatch.setattr(fuzz_judge, "run", forgetful)
    assert judge(graph).finding


def test_axes_that_are_fixed_stay():
    graph = _graph()
    graph.symbolic = True
    graph.fixed = frozenset({("x0", 0)})
    assert resized(graph) is None
    (port,) = graph.model().graph.input
    assert [(dim.dim_value, dim.dim_param) for dim in port.type.tensor_type.shape.dim] == [(3, ""), (0, "x0_1")]
    graph.shared = True
    (port,) = graph.model().graph.input
    assert [dim.dim_param for dim in port.type.tensor_type.shape.dim] == ["", "s5"]


def test_a_clone_with_other_results_is_noticed(monkeypatch):
    graph = _graph()
    graph.symbolic = True
    plain, runners = fuzz_judge.run, []

    def disturbed(executor, graph):
        results = plain(executor, graph)
        runners.append(executor)
        if executor is not runners[0]:
            results["t3"] = -results["t3"]
        return results

    monkeypatch.setattr(fuzz_judge, "run", disturbed)
    verdict = judge(graph)
    assert (verdict.kind, verdict.detail) == ("stale", "beside a clone: changed ['t3']")


def test_crashes_and_hangs_are_findings(monkeypatch):
    import os
    import time

    from tests.fuzz import pool

    monkeypatch.setattr(pool, "SECONDS", 0.5)

    def die(graph, note):
        note("refactor_graph")
        os._exit(11)

    def sleep(graph, note):
        note("refactor_graph")
        time.sleep(60)

    for task, kind in ((die, "crash"), (sleep, "hang")):
        worker = pool.Worker(task)
        worker.give(0)
        found = None
        while found is None:
            worker.connection.poll(0.2)
            found = worker.take()
        worker.stop()
        assert found.kind == kind


def test_a_process_judges_like_this_one():
    assert judge_apart(_graph()).kind == "passed"


def test_reduction_keeps_what_matters():
    graph = _graph()
    smaller = reduce(graph, lambda other: any(node.op_type == "Add" for node in other.nodes))
    assert [node.op_type for node in smaller.nodes] == ["Add"]
    assert set(smaller.inputs) | set(smaller.constants) == {"t0", "x0"}
    assert graph.outputs == ["t2", "t3"]


def test_reduction_drops_attributes():
    draft = graphs.Draft(np.random.default_rng(3), 17)
    draft.add("Softmax", [draft.new(graphs.F32, (3, 5), False)], axis=0)
    draft.graph.outputs = ["t0"]
    smaller = reduce(draft.graph, lambda other: other.nodes[0].op_type == "Softmax")
    assert not smaller.nodes[0].attribute
    np.testing.assert_allclose(smaller.values["t0"].sum(1), 1, rtol=1e-6)


def test_the_command():
    command = [sys.executable, "-m", "tests.fuzz", "--seed", "5", "--count", "3", "--show"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "seed 5: 3 graphs" in run.stdout
