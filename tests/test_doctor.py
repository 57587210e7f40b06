"""`refactor-graph doctor --device cuda`: what it tries on a GPU, and that what fails ends nothing."""

import pytest
from refactor_graph import _doctor, cli

from tests.conftest import missing_dnn, missing_gpu


@pytest.mark.cuda
@pytest.mark.parametrize("library", [False, True])
def test_every_layer_is_tried(library, capsys, monkeypatch):
    if missing_gpu():
        pytest.skip(missing_gpu())
    if library:
        monkeypatch.setenv("REFACTOR_GRAPH_EMULATED_DNN", "1")
    # On the emulated GPU sizes that make f8 pay take minutes.
    monkeypatch.setattr(_doctor, "_F8_SIZES", (64, 96, 160))
    assert cli.main(["doctor", "--device", "cuda"]) == 0
    text = capsys.readouterr().out
    assert "FAILED" not in text
    assert "copies: ok, by copy:nvidia:memcpy:f32" in text
    assert "product in f16: ok, by matmul:nvidia:cublaslt:f16 " in text
    assert "recorded launches: ok" in text
    if library and not missing_dnn():
        assert "SLOW: not by conv" not in text
        assert "conv:nvidia:cudnn:f16" in text
        assert "masked attention in f16: ok, by attention:nvidia:cudnn:f16 " in text
        assert "causal attention in f16: ok, by attention:nvidia:cudnn:f16 " in text


def test_a_missing_gpu_is_told(capsys, monkeypatch):
    monkeypatch.setattr(_doctor._core, "find_device", lambda kind, ordinal: _raise(_doctor.Error("no driver")))
    assert cli.main(["doctor", "--device", "cuda"]) == 1
    text = capsys.readouterr().out
    assert "driver and device: FAILED: no driver" in text
    assert "copies" not in text


def test_what_fails_ends_nothing(capsys, monkeypatch):
    checks = {"one": lambda target: 1 / 0, "two": lambda target: "ok"}
    monkeypatch.setattr(_doctor, "_CHECKS", checks)
    assert cli.main(["doctor", "--device", "cuda:1"]) == 1
    text = capsys.readouterr().out
    assert "cuda:1: one: FAILED: ZeroDivisionError" in text
    assert "cuda:1: two: ok" in text


def _raise(error):
    raise error
