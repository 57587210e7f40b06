"""The command; see the package."""

from __future__ import annotations

import argparse
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path

import numpy as np
import onnx

from tests.fuzz import __doc__ as description
from tests.fuzz.generate import NETWORKS, generate, supported
from tests.fuzz.graph import Graph
from tests.fuzz.judge import DISPUTED, REFUSED, Verdict, judge
from tests.fuzz.operators import GENERATORS, IN_MOTIFS
from tests.fuzz.pool import Worker, judge_apart
from tests.fuzz.reduce import reduce
from tests.fuzz.rounded import PRECISIONS, Judge

_ROUNDED_NETWORKS = 0.5
"""Part of the graphs that are whole networks where a lower precision is judged: it rounds what these are made of."""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="by default a new one, which is printed")
    parser.add_argument("--first", type=int, default=0, help="number of the first graph")
    parser.add_argument("--count", type=int, default=sys.maxsize, help="number of graphs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="comma-separated operators that may occur")
    parser.add_argument("--precision", choices=("f32", *PRECISIONS), default="f32", help="what is judged")
    parser.add_argument("--networks", type=float, default=None, help="part of the graphs that are whole networks")
    parser.add_argument("--keep-going", action="store_true", help="report findings of one kind more than once")
    parser.add_argument("--out", type=Path, default=None, help="folder for the models of findings")
    parser.add_argument("--show", action="store_true", help="print every graph")
    parser.add_argument("--refusals", type=int, default=10, help="how many reasons of refusals to print")
    return parser.parse_args()


def _signature(graph: Graph, verdict: Verdict) -> str:
    """Return what makes two reduced findings the same: kind, operators, and the message without its numbers."""
    text = re.sub(r"\b[tcx]\d+(_\d+)?\b|-?\d[\d.e+-]*|nan|inf|\"[^\"]*\"|True|False", "#", verdict.detail)
    operators = " ".join(node.op_type for node in graph.nodes)
    return f"{verdict.kind} {operators} {'' if verdict.kind in ('wrong', 'doubtful') else text[:60]}"


class Campaign:
    """A run of the fuzzer."""

    def __init__(self, options: argparse.Namespace, seed: int) -> None:
        self.options, self.seed = options, seed
        self.only = frozenset(filter(None, options.only.split(",")))
        self.rounds = options.precision != "f32"
        usual = _ROUNDED_NETWORKS if self.rounds else NETWORKS
        self.networks = usual if options.networks is None else options.networks
        self.judge = Judge(options.precision) if self.rounds else judge
        self.counts: Counter[str] = Counter()
        self.operators: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.seen: set[str] = set()
        self.findings = 0

    def generate(self, index: int) -> Graph:
        """Return a graph of the campaign."""
        return generate(self.seed, index, self.only, self.networks)

    def command(self, index: int) -> str:
        """Return what looks at a graph again."""
        options = {"only": self.options.only, "precision": self.options.precision if self.rounds else ""}
        options["networks"] = "" if self.options.networks is None else str(self.networks)
        chosen = "".join(f" --{name} '{value}'" for name, value in options.items() if value)
        return f"python -m tests.fuzz --seed {self.seed} --first {index} --count 1{chosen}"

    def task(self, index: int, note: Callable[[str], None]) -> tuple[Verdict, list[str]]:
        """Generate and judge one graph, in a worker."""
        try:
            graph = self.generate(index)
        except Exception:  # a defect of the fuzzer: shown, and the graph after it is next
            traceback.print_exc()
            return Verdict(DISPUTED, "the generator failed"), []
        if not graph.nodes:
            return Verdict(REFUSED, "an empty graph"), []
        return self.judge(graph, note), [node.op_type for node in graph.nodes]

    def run(self) -> None:
        """Go on until the time or the graphs are used up."""
        end = time.monotonic() + self.options.seconds
        last = min(self.options.first + self.options.count, sys.maxsize)
        following = self.options.first
        running: dict[Worker, int] = {}
        idle: list[Worker] = []
        while (following < last and time.monotonic() < end) or running:
            while following < last and time.monotonic() < end and len(running) < self.options.jobs:
                worker = idle.pop() if idle else Worker(self.task)
                worker.give(following)
                running[worker] = following
                following += 1
            wait([worker.connection for worker in running], timeout=1.0)
            for worker in list(running):
                found = worker.take()
                if found is None:
                    continue
                index = running.pop(worker)
                if isinstance(found, Verdict):  # of the process itself
                    worker.stop()
                    self.note(index, found, [])
                else:
                    idle.append(worker)
                    self.note(index, *found)
        for worker in idle:
            worker.stop()

    def note(self, index: int, verdict: Verdict, operators: list[str]) -> None:
        """Count a graph, and report what it found."""
        self.counts[verdict.kind] += 1
        self.operators.update(operators)
        if self.options.show:
            print(f"graph {index}: {verdict.kind} {verdict.detail}\n{self.generate(index).describe()}")
        if verdict.kind in (REFUSED, DISPUTED):
            self.reasons[f"{verdict.kind}: " + re.sub(r'"[^"]*"|(?<!opset )-?\d+', "#", verdict.detail)[:200]] += 1
        if not verdict.finding:
            return
        self.findings += 1
        graph = self.generate(index)
        smaller = reduce(graph, lambda other: judge_apart(other, self.judge).kind == verdict.kind)
        final = judge_apart(smaller, self.judge)
        final = final if final.finding else verdict
        signature = _signature(smaller, final)
        if signature in self.seen and not self.options.keep_going:
            return
        self.seen.add(signature)
        print(f"\nFOUND {final.kind}: {self.command(index)}")
        print(f"{final.detail}\n{smaller.describe()}", flush=True)
        if self.options.out is not None:
            folder = self.options.out / f"{self.seed}-{index}"
            folder.mkdir(parents=True, exist_ok=True)
            onnx.save(smaller.model(), folder / "model.onnx")
            np.savez(
                folder / "values.npz", **{name: smaller.values[name] for name in (*smaller.inputs, *smaller.outputs)}
            )

    def report(self) -> None:
        """Print what was done."""
        total = sum(self.counts.values())
        parts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items()))
        print(f"\nseed {self.seed}: {total} graphs: {parts}; {len(self.seen)} different findings")
        print(f"{len(self.operators)} operators in {sum(self.operators.values())} nodes")
        if not self.only:
            known = GENERATORS.keys() | IN_MOTIFS
            print(f"never generated: {', '.join(sorted((known & supported()) - self.operators.keys()))}")
            print(f"without a generator: {', '.join(sorted(supported() - known))}")
        for reason, count in self.reasons.most_common(self.options.refusals):
            print(f"  {count} x {reason}")


def main() -> int:
    """Return 1 if anything was found."""
    options = _options()
    seed = options.seed if options.seed is not None else int(np.random.default_rng().integers(1 << 31))
    print(f"seed {seed}", flush=True)
    campaign = Campaign(options, seed)
    campaign.run()
    campaign.report()
    return int(campaign.findings > 0)


if __name__ == "__main__":
    sys.exit(main())
