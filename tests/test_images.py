"""ImageDecoder, whose pictures Pillow reads."""

import io

import numpy as np
import pytest
from refactor_graph import InvalidInput, InvalidModel, Unsupported, _images
from refactor_graph.onnx import make_compiler

from tests import models, single

Image = pytest.importorskip("PIL.Image")


def picture(kind, mode="RGB", size=(13, 7)):
    rows, columns = size[::-1]
    channels = len(Image.new(mode, (1, 1)).getbands())
    pixels = models.generator().integers(0, 256, (rows, columns, channels), np.uint8)
    image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels, mode)
    file = io.BytesIO()
    image.save(file, kind)
    return np.frombuffer(file.getvalue(), np.uint8), image


@pytest.mark.parametrize("kind", ["PNG", "BMP", "PPM", "TIFF", "JPEG", "GIF"])
@pytest.mark.parametrize("pixel_format", ["RGB", "BGR", "Grayscale"])
def test_kinds_of_files(kind, pixel_format):
    file, _ = picture(kind)
    wanted = np.asarray(Image.open(io.BytesIO(file.tobytes())).convert("L" if pixel_format == "Grayscale" else "RGB"))
    if pixel_format != "RGB":
        wanted = wanted[..., ::-1] if pixel_format == "BGR" else wanted[..., None]
    single.check("ImageDecoder", {"file": file}, opset=20, pixel_format=pixel_format, oracle=[wanted])


@pytest.mark.parametrize("mode", ["L", "RGBA", "CMYK", "1", "P"])
def test_other_colours_are_converted(mode):
    if mode in ("1", "P"):
        image = picture("PNG")[1].convert(mode)
        file = io.BytesIO()
        image.save(file, "PNG")
        file = np.frombuffer(file.getvalue(), np.uint8)
    else:
        file, image = picture("TIFF", mode)
    single.check("ImageDecoder", {"file": file}, opset=20, oracle=[np.asarray(image.convert("RGB"))])


def test_one_executor_reads_pictures_of_any_size():
    file, _ = picture("PNG")
    proto = single.model("ImageDecoder", {"file": file}, opset=20)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    executor = make_compiler(proto).compile()
    for size in [(3, 5), (50, 1), (64, 64), (3, 5)]:
        file, image = picture("PNG", size=size)
        (y,) = executor({"file": file}).values()
        np.testing.assert_array_equal(y, np.asarray(image))


@pytest.mark.parametrize("content", [b"", b"no picture", b"\x89PNG\r\n\x1a\n", None])
def test_files_that_are_no_pictures(content):
    if content is None:
        content = picture("PNG")[0].tobytes()[:-30]
    feeds = {"file": np.frombuffer(content, np.uint8)}
    with pytest.raises(InvalidInput, match="ImageDecoder: "):
        single.run(single.model("ImageDecoder", feeds, opset=20), feeds)


def test_refusals(monkeypatch):
    feeds = {"file": np.zeros(9, np.uint8)}
    with pytest.raises(InvalidModel, match="pixel_format is"):
        make_compiler(single.model("ImageDecoder", feeds, opset=20, pixel_format="YUV"))
    with pytest.raises(InvalidModel, match="axes, expected 1"):
        make_compiler(single.model("ImageDecoder", {"file": np.zeros((3, 3), np.uint8)}, opset=20))
    monkeypatch.setattr(_images, "find_spec", lambda name: None)
    with pytest.raises(Unsupported, match='needs the package "pillow"'):
        make_compiler(single.model("ImageDecoder", feeds, opset=20))
