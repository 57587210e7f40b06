"""Worker processes: what kills one of them is a finding."""

from __future__ import annotations

import faulthandler
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from tests.fuzz.judge import DISPUTED, Verdict, judge

_FORK = multiprocessing.get_context("fork")
SECONDS = 60.0
"""A graph that takes longer hangs; the usual one takes some 20 ms."""


def _work(connection: Connection, task: Callable[[Any, Callable[[str], None]], Any]) -> None:
    faulthandler.disable()
    for item in iter(connection.recv, None):
        result = task(item, lambda stage: connection.send(("stage", stage)))
        connection.send(("result", result))


class Worker:
    """A process that handles one item at a time."""

    def __init__(self, task: Callable[[Any, Callable[[str], None]], Any]) -> None:
        self.connection, end = _FORK.Pipe()
        self.process = _FORK.Process(target=_work, args=(end, task), daemon=True)
        self.process.start()
        end.close()
        self.stage = ""
        self.deadline = 0.0

    def give(self, item: Any) -> None:
        """Start on an item."""
        self.stage, self.deadline = "the generator", time.monotonic() + SECONDS
        self.connection.send(item)

    def take(self) -> Any:
        """Return the result if there is one, a `Verdict` if the process died or hangs, else None."""
        try:
            while self.connection.poll():
                kind, value = self.connection.recv()
                if kind == "result":
                    return value
                self.stage = value
        except (EOFError, ConnectionResetError):
            self.process.join()
            return self._blame("crash", f"the process died with exit code {self.process.exitcode}")
        if time.monotonic() > self.deadline:
            return self._blame("hang", f"it takes more than {SECONDS:.0f} s")
        return None

    def _blame(self, kind: str, text: str) -> Verdict:
        return Verdict(kind if self.stage == "refactor_graph" else DISPUTED, f"{text}, in {self.stage}")

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def judge_apart(graph: Any, judgement: Callable[[Any, Callable[[str], None]], Verdict] = judge) -> Verdict:
    """Judge a graph in a process of its own."""
    worker = Worker(judgement)
    try:
        worker.give(graph)
        while True:
            worker.connection.poll(1.0)
            found = worker.take()
            if found is not None:
                return found
    finally:
        worker.stop()
