#include "common/error.h"
#include "kernel/procedures/image.h"
#include "mem_manager/blob.h"
#include "module.h"

#include <cstring>
#include <string>

#include <pybind11/numpy.h>

namespace refactor::python {

namespace {

using kernel::PixelFormat;

/// Calls `refactor_graph._images`, which is imported when the first picture is asked for.
class PythonDecoder final : public kernel::ImageDecoder {
    static py::module_ images() { return py::module_::import("refactor_graph._images"); }

public:
    std::string missing() const override {
        py::gil_scoped_acquire lock;
        return images().attr("missing")().cast<std::string>();
    }
    void decode(std::span<std::byte const> file, PixelFormat format, runtime::Value& picture) const override {
        constexpr char const* kNames[]{"RGB", "BGR", "Grayscale"};
        py::gil_scoped_acquire lock;
        py::bytes bytes(reinterpret_cast<char const*>(file.data()), file.size());
        py::object answer = images().attr("decode")(bytes, kNames[static_cast<int>(format)]);
        // A text says why there is no picture.
        if (py::isinstance<py::str>(answer)) throw InvalidInput("ImageDecoder: " + answer.cast<std::string>());
        auto pixels = answer.cast<py::array_t<uint8_t, py::array::c_style>>();
        Dims dims;
        for (py::ssize_t i = 0; i < pixels.ndim(); ++i) dims.push_back(pixels.shape(i));
        std::memcpy(picture.resize(DataType::U8, dims), pixels.data(), static_cast<size_t>(pixels.nbytes()));
    }
};

}  // namespace

void bind_images(py::module_&) { kernel::set_image_decoder(std::make_shared<PythonDecoder>()); }

}  // namespace refactor::python
