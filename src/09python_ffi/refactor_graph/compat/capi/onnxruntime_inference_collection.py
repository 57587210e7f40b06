"""Where onnxruntime defines its Python classes."""

from refactor_graph.compat import InferenceSession, IOBinding, OrtDevice, OrtValue

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue"]
