
#include "frontend/recorded.h"
#include "frontend/shape_rules.h"
#include "operator_def.h"

namespace refactor::onnx {

namespace {

using kernel::PixelFormat;

Inferred<PixelFormat> format_of(NodeView const& n) {
    auto name = n.text("pixel_format", "RGB");
    if (name == "RGB") return PixelFormat::Rgb;
    if (name == "BGR") return PixelFormat::Bgr;
    if (name == "Grayscale") return PixelFormat::Grayscale;
    return Err{invalid("pixel_format is \"", name, "\", expected \"RGB\", \"BGR\" or \"Grayscale\"")};
}

Status infer_image_decoder(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(format, format_of(n));
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 1, 1));
    if (auto missing = kernel::image_decoder_missing(); !missing.empty()) return unsupported(missing);
    return c.set(0, DataType::U8, {c.fresh(0, 0), c.fresh(0, 1), channels_of(format)});
}

Inferred<frontend::ProcedurePtr> image_decoder_procedure(frontend::ProcedureContext const&, NodeView const& n) {
    RG_TRY(format, format_of(n));
    return frontend::record<kernel::make_image_decode>(format);
}

}  // namespace

void define_image(Definitions& all) {
    all.push_back({.name = "ImageDecoder",
                   .since = 20,
                   .types = {{types(DataType::U8)}},
                   .attributes = {{"pixel_format", AttributeKind::String}},
                   .infer = infer_image_decoder,
                   .procedure = image_decoder_procedure});
}

}  // namespace refactor::onnx
