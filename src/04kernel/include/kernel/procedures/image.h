#pragma once
#include "runtime/procedure.h"

#include <cstddef>

/// Decoding of picture files. What can read JPEG, PNG and their like comes from the host language: the core has no
/// decoders of its own.
namespace refactor::kernel {

using ProcedurePtr = std::shared_ptr<runtime::Procedure const>;

enum class PixelFormat : uint8_t { Rgb, Bgr, Grayscale };
constexpr int64_t channels_of(PixelFormat format) { return format == PixelFormat::Grayscale ? 1 : 3; }

/// Used by many threads at the same time.
class ImageDecoder {
public:
    virtual ~ImageDecoder() = default;
    /// What must be installed before pictures can be decoded; empty if nothing is missing.
    virtual std::string missing() const = 0;
    /// Makes `picture` u8[rows, columns, channels]. Throws `InvalidInput` if `file` is no picture that it reads.
    virtual void decode(std::span<std::byte const> file, PixelFormat format, runtime::Value& picture) const = 0;
};

/// Called once, when the host language loads, before any model is compiled.
void set_image_decoder(std::shared_ptr<ImageDecoder const> decoder);
/// What `make_image_decode` would lack, empty if nothing.
std::string image_decoder_missing();

/// File u8[bytes] → picture u8[rows, columns, channels]. Source: ONNX ImageDecoder-20.
ProcedurePtr make_image_decode(PixelFormat format);

}  // namespace refactor::kernel
