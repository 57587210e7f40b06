"""The fuzzer in lower precisions: a short campaign, and what its judgement finds in broken results."""

import numpy as np
import pytest
from refactor_graph import _core

from tests.fuzz import graph as graphs
from tests.fuzz import rounded
from tests.fuzz.generate import generate
from tests.fuzz.judge import Verdict
from tests.fuzz.rounded import PRECISIONS, Judge, rounding_difference, undecided

SEED = 20261127
needs_bf16 = pytest.mark.skipif(
    _core.instruction_set() not in ("avx512bf16", "avx512amx"), reason="no products of bf16 without AVX512-BF16"
)

pytestmark = pytest.mark.usefixtures("onnxruntime")


@pytest.fixture(scope="module")
def onnxruntime():
    return pytest.importorskip("onnxruntime")


@pytest.mark.parametrize(("precision", "count"), [("bf16", 30), ("int8", 10)])
def test_a_short_campaign_finds_nothing(precision, count):
    judge = Judge(precision)
    for index in range(count):
        graph = generate(SEED, index, networks=0.5)
        verdict = judge(graph) if graph.nodes else Verdict("refused")
        command = f"python -m tests.fuzz --seed {SEED} --first {index} --count 1 --precision {precision}"
        assert not verdict.finding, f"{verdict.kind}: {verdict.detail}\n{command}\n{graph.describe()}"


def _graph(*, symbolic=False):
    """Two convolutions of 32 channels and the largest of each position, or what the second of them makes."""
    draft = graphs.Draft(np.random.default_rng(3), 17, is_network=True)
    draft.real = graphs.F32
    x = draft.new(graphs.F32, (1, 32, 6, 5), False)
    for _ in range(2):
        weights = draft.random.standard_normal((32, 32, 3, 3)).astype(np.float32) / 17
        (x,) = draft.add("Conv", [x, draft.leaf(weights, constant=True)], pads=[1] * 4)
    draft.add("ArgMax", [x], axis=1, keepdims=0)
    draft.graph.outputs = ["t1", "t2"]
    draft.graph.symbolic = symbolic
    return draft.graph


def _broken(monkeypatch, change, when=lambda runs: True):
    """Let results be others than the library computes: every second executor is one of the lower precision."""
    plain, executors, runs = rounded.run, [], []

    def broken(executor, graph):
        results = plain(executor, graph)
        executors.extend([executor] if executor not in executors else [])
        if executors.index(executor) % 2 == 1:
            runs.append(executor)
            if when(len(runs)):
                change(results)
        return results

    monkeypatch.setattr(rounded, "run", broken)


def _one_element(results):
    results["t1"] = results["t1"].copy()
    results["t1"][0, 17, 3, 2] += 0.05 * np.abs(results["t1"]).max()


def _all_elements(results):
    results["t1"] = results["t1"] * np.float32(1.02)


def _shifted(results):
    results["t1"] = np.roll(results["t1"], 1, axis=3)


def _not_finite(results):
    results["t1"] = np.where(results["t1"] == results["t1"].max(), np.float32(np.nan), results["t1"])


def _another_type(results):
    results["t2"] = results["t2"].astype(np.float32)


@pytest.mark.parametrize("symbolic", [False, True])
def test_right_results_pass(symbolic):
    assert Judge("bf16")(_graph(symbolic=symbolic)).kind == "passed"


@needs_bf16
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_one_element, "t1: 1 of 960 elements differ, first at [0, 17, 3, 2]"),
        (_all_elements, "t1: "),
        (_shifted, "elements differ"),
        (_not_finite, "1 of 960 elements differ"),
        (_another_type, "t2: another type"),
    ],
)
def test_wrong_results_are_noticed(monkeypatch, change, text):
    _broken(monkeypatch, change)
    verdict = Judge("bf16")(_graph())
    assert (verdict.kind, verdict.finding) == ("wrong", True)
    assert text in verdict.detail


@needs_bf16
def test_what_rounded_floats_decide_is_not_compared(monkeypatch):
    assert undecided(_graph()) == {"t2"}
    _broken(monkeypatch, lambda results: results.update(t2=31 - results["t2"]))
    assert Judge("bf16")(_graph()).kind == "passed"


def test_results_that_change_are_noticed(monkeypatch):
    def smallest(results):
        results["t1"] = np.nextafter(results["t1"], np.float32(9))

    _broken(monkeypatch, smallest, when=lambda runs: runs == 2)
    verdict = Judge("bf16")(_graph())
    assert (verdict.kind, verdict.detail) == ("stale", "bf16 num_threads=1: a second run changes ['t1']")


def test_nothing_changes_without_products(monkeypatch):
    draft = graphs.Draft(np.random.default_rng(3), 17)
    draft.add("Neg", [draft.new(graphs.F32, (3, 5), False)])
    draft.graph.outputs = ["t0"]
    assert Judge("bf16")(draft.graph).kind == "passed"
    _broken(monkeypatch, lambda results: results.update(t0=np.nextafter(results["t0"], np.float32(9))))
    verdict = Judge("bf16")(draft.graph)
    assert "['t0'] differ from f32, and nothing is to be rounded" in verdict.detail


def test_refusals_of_what_f32_runs_are_findings(monkeypatch):
    plain = rounded.compile_graph

    def refusing(graph, **options):
        if "precision" in options:
            return Verdict("refused", "no kernel")
        return plain(graph, **options)

    monkeypatch.setattr(rounded, "compile_graph", refusing)
    verdict = Judge("bf16")(_graph())
    assert (verdict.kind, verdict.finding) == ("refuses", True)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_tolerance_is_a_few_roundings(precision):
    """Errors as of rounding pass; one that is ten times as large does not, nor do all if they are four times so."""
    random = np.random.default_rng(1)
    wanted = random.standard_normal((8, 40), np.float32)
    rounding = PRECISIONS[precision]
    samples = [rounding.disturbed(wanted, random) for _ in range(3)]
    assert rounding_difference(rounding.disturbed(wanted, random), wanted, samples) is None
    usual = np.sqrt(np.mean(np.square(samples - wanted)))
    assert "errors of" in rounding_difference(wanted + 4 * usual, wanted, samples)
    wrong = wanted.copy()
    wrong[5, 3] += 10 * rounding.unit * np.abs(wanted).max()
    assert "1 of 320 elements differ, first at [5, 3]" in rounding_difference(wrong, wanted, samples)


def test_refusals_of_nothing_are_findings(monkeypatch):
    plain, lower = rounded.compile_graph, []

    def noting(graph, **options):
        executor = plain(graph, **options)
        lower.extend([executor] if "precision" in options else [])
        return executor

    def refusing(executor, graph, run=rounded.run):
        nothing = any(array.size == 0 for array in graph.feeds().values())
        return Verdict("refused", "no kernel") if nothing and executor in lower else run(executor, graph)

    monkeypatch.setattr(rounded, "compile_graph", noting)
    monkeypatch.setattr(rounded, "run", refusing)
    verdict = Judge("bf16")(_graph(symbolic=True))
    assert (verdict.kind, verdict.finding) == ("refuses", True)
    assert "are 0: no kernel, f32 does not" in verdict.detail
