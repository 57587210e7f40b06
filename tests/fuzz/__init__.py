"""A differential fuzzer: random small graphs, in this library beside `onnx.reference` and onnxruntime.

    python -m tests.fuzz --seconds 60 --seed 1            search, shrink what is found, and print it
    python -m tests.fuzz --seed 1 --first 17 --count 1    one graph again

Graphs are typed and correct in their shapes by construction: a node is added only after `onnx.reference` has computed
it, so that every graph is a legal model with known results (in the manner of NNSmith, https://arxiv.org/abs/2207.13066).
"""
