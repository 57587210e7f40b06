"""The profile of a session in Chrome's trace format, as onnxruntime writes it."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from refactor_graph.executor import Executor


class Profile:
    """Runs of one session."""

    def __init__(self, prefix: str) -> None:
        self.start = time.monotonic_ns()
        """When it began, ns."""
        self._prefix = prefix
        self._runs: list[tuple[int, int, int]] = []

    def add(self, start: int, end: int) -> None:
        """Note a run of the calling thread from `start` to `end` on the clock of `time.monotonic_ns`."""
        self._runs.append((threading.get_ident(), start, end))

    def write(self, executor: Executor | None) -> str:
        """Write the file and return its name.

        Parameters
        ----------
        executor
            One that has run: its steps are timed in one more run; None if nothing has run.
        """
        events = [
            self._event("Session", "model_run", thread, start, end - start, {}) for thread, start, end in self._runs
        ]
        if executor is not None:
            at = time.monotonic_ns()
            for step in executor.bench(repeats=1, quiet=True):
                details = {"op_name": step.type, "provider": step.kernel, "output_shape": step.shape}
                thread, duration = threading.get_ident(), int(step.nanoseconds)
                events.append(self._event("Node", f"{step.node}_kernel_time", thread, at, duration, details))
                at += duration
        name = f"{self._prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}_{self.start % 1000:03d}.json"
        Path(name).write_text(json.dumps(events, indent=1), encoding="utf-8")
        return name

    def _event(
        self, category: str, name: str, thread: int, start: int, nanoseconds: int, details: dict[str, str]
    ) -> dict[str, Any]:
        micro = {"ts": (start - self.start) // 1000, "dur": nanoseconds // 1000}  # the format counts microseconds
        return {"cat": category, "pid": os.getpid(), "tid": thread, **micro, "ph": "X", "name": name, "args": details}
