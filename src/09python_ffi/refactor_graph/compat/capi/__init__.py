"""Where onnxruntime keeps its native module; code imports exceptions from here."""
