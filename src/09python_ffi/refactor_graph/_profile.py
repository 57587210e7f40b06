"""The table of `Executor.bench`."""

from __future__ import annotations

from typing import NamedTuple


class BenchRow(NamedTuple):
    """One step of a run."""

    node: str
    type: str
    kernel: str
    shape: str
    """Of the first output."""
    nanoseconds: float
    operations: float
    """Floating-point operations, a multiply-add counting two; 0 for data movement."""
    bytes: float
    """Read and written at least once."""

    @property
    def rate(self) -> str:
        """GFLOP/s of steps that compute much, GB/s of all others."""
        if not self.nanoseconds:
            return "-"
        # Below 8 operations a byte (a dot product of 32 floats) memory is what limits a step.
        if self.operations >= 8 * self.bytes:
            return f"{self.operations / self.nanoseconds:.1f} GFLOP/s"
        return f"{self.bytes / self.nanoseconds:.1f} GB/s"


class BenchTable(list[BenchRow]):
    """Rows in the order of execution; `str()` is a table for people."""

    @property
    def nanoseconds(self) -> float:
        """Sum over all steps."""
        return sum(row.nanoseconds for row in self)

    def slowest(self, count: int) -> BenchTable:
        """Return the `count` rows that take most time, slowest first."""
        return BenchTable(sorted(self, key=lambda row: -row.nanoseconds)[:count])

    def format(self, total: float | None = None) -> str:
        """Return the table; shares refer to `total` ns (the sum of its own rows if None)."""
        whole = self.nanoseconds if total is None else total
        head = ("time", "share", "node", "operator", "shape", "kernel", "rate")
        body = [
            (
                f"{row.nanoseconds / 1e3:.1f} µs",
                f"{100 * row.nanoseconds / whole:.1f} %" if whole else "-",
                row.node if len(row.node) <= 40 else "…" + row.node[-39:],
                row.type,
                row.shape,
                row.kernel,
                row.rate,
            )
            for row in self
        ]
        widths = [max(len(line[column]) for line in [head, *body]) for column in range(len(head))]
        lines = []
        for line in [head, *body]:
            cells = [
                cell.rjust(w) if i < 2 or i == 6 else cell.ljust(w)
                for i, (cell, w) in enumerate(zip(line, widths, strict=True))
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"{self.format()}\n{self.nanoseconds / 1e3:.1f} µs in {len(self)} steps"
