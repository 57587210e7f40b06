"""A differential fuzzer: random small graphs, in this library beside `onnx.reference` and onnxruntime.

    python -m tests.fuzz --seconds 60 --seed 1            search, shrink what is found, and print it
    python -m tests.fuzz --seed 1 --first 17 --count 1    one graph again
    python -m tests.fuzz --precision bf16                 the same in a lower precision, beside this library in f32

Graphs are typed and correct in their shapes by construction: a node is added only after `onnx.reference` has computed
it, so that every graph is a legal model with known results (in the manner of NNSmith, https://arxiv.org/abs/2207.13066).

A lower precision (`--precision`) is judged beside our own results in f32 (`tests.fuzz.rounded`), with one thread, with
two, and without tensors of bf16 between layers:

- What f32 runs is not refused, with sizes of 0 neither, and types and shapes are the same.
- Results are as far from those of f32 as errors of rounding in every tensor make them, as `onnx.reference` computes it,
  or a few times as far; so is the root of the mean of their squares. What rounded floats decide (ArgMax, a comparison,
  a cast to integers, and all that follows) has only its type compared.
- Without products, or on a processor that has none in the precision, they are those of f32, bit by bit.
- They do not change in a second run, after runs with other sizes, or beside a clone.
"""
