"""Runs the standard's own test suite, `onnx.backend.test.BackendTest`, in worker processes.

    python -m tests.backend_suite            run, and compare with the golden list
    python -m tests.backend_suite --update   run, and write the golden list
    python -m tests.backend_suite --device CUDA [--update]
                                             run the cases of the list on a GPU, which may refuse cases but not fail;
                                             `--update` writes build/cuda_operators.md
    python -m tests.backend_suite --saved    run the cases of the list from files that compiled models were saved to,
                                             which may be refused but not fail

The golden list names the cases that must pass. A case that passes without being listed is a difference too, so that
the list is always the truth about what the tree can do. A worker that dies fails the case that it was running, and no
other.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import os
import re
import sys
import tempfile
import time
import unittest
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden" / "onnx_backend.txt"
"""One case a line: category, a slash, name."""

PAGE = Path(__file__).parents[1] / "build" / "cuda_operators.md"

EXCLUDED = {
    r"/test_(bernoulli|randomuniform|randomnormal|multinomial)": "its outputs are random",
    r"/test_training_dropout_(?!zero_ratio)": "its outputs are random",
}
"""Cases that say nothing, and why."""

_CASE_SECONDS = 120.0
"""A case that runs longer has failed; the slowest takes a few seconds."""

Case = Callable[[], None]


@dataclass(frozen=True)
class Outcome:
    """What became of a case: no reason if it passed."""

    name: str
    reason: str | None


def _saved_and_loaded(prepared: Any) -> Any:
    """Run the model from a file instead."""
    from refactor_graph import load
    from refactor_graph.backend import BackendRep

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model"
        prepared.executor.save(file)
        return BackendRep(load(file, verify=True))


def _cases(device: str, saved: bool) -> dict[str, Case]:
    """All cases for a kind of device ("CPU", "CUDA") by name; `saved`: of models that go through a file."""
    from onnx.backend.test import BackendTest
    from refactor_graph.backend import Backend

    class Suite(Backend):
        """`is_compatible` would turn a failure into a skip."""

        @classmethod
        def is_compatible(cls, *_: Any, **__: Any) -> bool:
            return True

        @classmethod
        def prepare(cls, *arguments: Any, **options: Any) -> Any:
            prepared = super().prepare(*arguments, **options)
            return _saved_and_loaded(prepared) if saved else prepared

        @classmethod
        def supports_device(cls, name: str) -> bool:
            return name == device

    cases = {}
    with warnings.catch_warnings():  # the suite computes overflows and divisions by zero on purpose
        warnings.simplefilter("ignore")
        suites = BackendTest(Suite, __name__).test_cases
    ending = f"_{device.lower()}"
    for suite, holder in suites.items():
        category = suite.removeprefix("OnnxBackend").removesuffix("ModelTest")
        instance = holder()
        for name in dir(holder):
            full = f"{category}/{name.removesuffix(ending)}"
            if name.startswith("test_") and name.endswith(ending) and not any(re.search(p, full) for p in EXCLUDED):
                cases[full] = getattr(instance, name)
    return cases


def _run_one(case: Case) -> str | None:
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case()
    except unittest.SkipTest as skipped:
        return f"skipped: {skipped}"
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {' '.join(' '.join(lines).split())[:300]}"
    return None


def _work(cases: dict[str, Case], connection: Connection) -> None:
    """Run the cases that the parent names, until it says None."""
    for name in iter(connection.recv, None):
        connection.send(_run_one(cases[name]))


class _Worker:
    def __init__(self, cases: dict[str, Case]) -> None:
        context = multiprocessing.get_context("fork")  # the cases cannot be pickled, and take half a minute to make
        self.connection, end = context.Pipe()
        self.process = context.Process(target=_work, args=(cases, end), daemon=True)
        self.process.start()
        end.close()
        self.case: str | None = None
        self.deadline = 0.0

    def give(self, name: str | None) -> None:
        self.case, self.deadline = name, time.monotonic() + _CASE_SECONDS
        self.connection.send(name)

    def take(self) -> str | None:
        """Reason of failure of the case that it was given; a dead worker is one too."""
        try:
            reason: str | None = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            reason = f"the process died with exit code {self.process.exitcode}"
        return reason

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def run(
    jobs: int, pattern: str = "", device: str = "CPU", among: set[str] | None = None, saved: bool = False
) -> Iterator[Outcome]:
    """Run the cases whose names match `pattern`, of those named `among` if given, in `jobs` processes."""
    cases = _cases(device, saved)
    chosen = (name for name in cases if re.search(pattern, name) and (among is None or name in among))
    waiting = sorted(chosen, reverse=True)
    workers: list[_Worker] = []
    try:
        while waiting or workers:
            while waiting and len(workers) < jobs:
                workers.append(_Worker(cases))
                workers[-1].give(waiting.pop())
            ready = wait([worker.connection for worker in workers], timeout=1.0)
            for worker in list(workers):
                late = worker.connection not in ready and time.monotonic() > worker.deadline
                if worker.connection not in ready and not late:
                    continue
                reason = f"it took more than {_CASE_SECONDS:.0f} s" if late else worker.take()
                assert worker.case is not None
                yield Outcome(worker.case, reason)
                if late or not worker.process.is_alive() or not waiting:
                    worker.stop()
                    workers.remove(worker)
                else:
                    worker.give(waiting.pop())
    finally:
        for worker in workers:
            worker.stop()


def read_golden() -> set[str]:
    """Names of the cases that must pass."""
    return set(GOLDEN.read_text(encoding="utf-8").split())


def _operators() -> dict[str, str]:
    """Operator of each case that is about a single node."""
    from onnx.backend.test.loader import load_model_tests

    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in load_model_tests(kind="node"):
            nodes = list(case.model.graph.node) if case.model else []
            if len(nodes) == 1:
                domain = "" if nodes[0].domain in ("", "ai.onnx") else f"{nodes[0].domain}."
                found[f"Node/{case.name}"] = domain + nodes[0].op_type
    return found


def _is_refusal(reason: str | None) -> bool:
    return reason is not None and reason.startswith("Unsupported: ")


_PAGE_HEAD = """\
# Operators on CUDA

Made by `python -m tests.backend_suite --device CUDA --update`: how many of the cases of ONNX's own test suite that pass
on the CPU run with `compile("cuda")`, by operator, and why the others are refused. What is refused still runs with
`compile(["cuda", "cpu"])`. No case may give a wrong result.

{run} of {all} cases run.

| operator | cases | run | refused because |
|---|---|---|---|
"""


def _short(reason: str) -> str:
    """Take the first thing that a refusal says, without names."""
    text = reason.removeprefix("Unsupported: ").replace("these node(s) run on the CPU only: ", "")
    found = re.search(r"(\w+):nvidia:? ?[^;]*", text) or re.search(r"\w+ node[^;]*", text)
    text = found.group(0) if found else text
    return re.sub(r' "[^"]*"| node :', "", text)[:120].replace("|", "/").strip()


def _write_page(outcomes: dict[str, str | None]) -> None:
    rows: dict[str, list[str | None]] = {}
    for name, operator in _operators().items():
        if name in outcomes:
            rows.setdefault(operator, []).append(outcomes[name])
    passes = sum(reason is None for reason in outcomes.values())
    text = _PAGE_HEAD.format(run=passes, all=len(outcomes))
    for operator, reasons in sorted(rows.items()):
        why = "; ".join(sorted({_short(reason) for reason in reasons if reason}))
        text += f"| {operator} | {len(reasons)} | {reasons.count(None)} | {why} |\n"
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")


def _compare_refusing(options: argparse.Namespace, outcomes: dict[str, str | None]) -> int:
    passes = [name for name, reason in outcomes.items() if reason is None]
    wrong = [name for name, reason in outcomes.items() if reason is not None and not _is_refusal(reason)]
    print(f"{len(passes)} of {len(outcomes)} cases pass, {len(outcomes) - len(passes) - len(wrong)} are refused")
    for name in sorted(outcomes):
        if name in wrong or (options.verbose and outcomes[name]):
            print(f"  {'must not fail: ' if name in wrong else ''}{name}: {outcomes[name]}")
    if options.update and options.device != "CPU" and not options.filter:
        _write_page(outcomes)
    return int(bool(wrong))


def main() -> int:
    """Return 1 if the outcome differs from the golden list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the golden list")
    parser.add_argument("--device", choices=["CPU", "CUDA"], default="CPU")
    parser.add_argument("--saved", action="store_true", help="save each model and run what is loaded")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--filter", default="", help="regular expression; only cases that match are run and compared")
    parser.add_argument("--verbose", action="store_true", help="show every failure, expected ones too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("ONNX_MODELS", None)
        os.environ["ONNX_HOME"] = folder  # the suite writes the data of its large models there
        may_refuse = options.saved or options.device != "CPU"
        among = read_golden() if may_refuse else None
        found = run(options.jobs, options.filter, options.device, among, options.saved)
        outcomes = {item.name: item.reason for item in found}
    if may_refuse:
        return _compare_refusing(options, outcomes)
    passes = {name for name, reason in outcomes.items() if reason is None}
    print(f"{len(passes)} of {len(outcomes)} cases pass")
    if options.verbose:
        for name in sorted(set(outcomes) - passes):
            print(f"  {name}: {outcomes[name]}")
    if options.update:
        kept = {name for name in read_golden() if name not in outcomes} if options.filter else set()
        GOLDEN.write_text("".join(f"{name}\n" for name in sorted(passes | kept)), encoding="utf-8")
        return 0
    golden = {name for name in read_golden() if re.search(options.filter, name)}
    for name in sorted(golden - passes):
        print(f"must pass, fails: {name}: {outcomes.get(name, 'there is no such case')}")
    for name in sorted(passes - golden):
        print(f"passes, is not listed: {name}")
    return int(golden != passes)


if __name__ == "__main__":
    sys.exit(main())
