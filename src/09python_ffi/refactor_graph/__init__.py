"""RefactorGraph: compiles trained models into fast executors for CPUs and NVIDIA GPUs."""

from refactor_graph._core import __version__

__all__ = ["__version__"]
