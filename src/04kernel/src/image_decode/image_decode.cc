#include "common/error.h"
#include "kernel/procedures/image.h"
#include "mem_manager/blob.h"

namespace refactor::kernel {

namespace {

std::shared_ptr<ImageDecoder const> decoder;

class ImageDecode final : public runtime::Procedure {
    PixelFormat format_;

public:
    explicit ImageDecode(PixelFormat format) : format_(format) {}
    std::string id() const override { return "image_decode:cpu:host:u8"; }
    void call(std::span<runtime::Value const* const> inputs, std::span<runtime::Value> outputs,
              runtime::CallContext const&) const override {
        auto const& file = *inputs[0];
        if (auto missing = image_decoder_missing(); !missing.empty()) throw Unsupported("ImageDecoder: " + missing);
        decoder->decode({file.data<std::byte>(), static_cast<size_t>(file.count())}, format_, outputs[0]);
        auto const& picture = outputs[0];
        ensure(picture.dtype == DataType::U8 && picture.dims.size() == 3 && picture.dims[2] == channels_of(format_),
               "an image decoder makes u8 of the channels that were asked for");
    }
};

}  // namespace

void set_image_decoder(std::shared_ptr<ImageDecoder const> made) { decoder = std::move(made); }

std::string image_decoder_missing() { return decoder ? decoder->missing() : "the host has no decoder of pictures"; }

ProcedurePtr make_image_decode(PixelFormat format) { return std::make_shared<ImageDecode>(format); }

}  // namespace refactor::kernel
