#include "computation/operator.h"
#include "frontend/expression.h"
#include "operator_def.h"
#include "size_values.h"

namespace refactor::onnx {

namespace {

Inferred<DataType> target_of(NodeView const& n) {
    auto code = n.integer("to", 0);
    auto dtype = data_type_from_onnx(code);
    if (!dtype) return Err{invalid("the target type ", code, " does not exist")};
    return *dtype;
}

Status infer_to(InferContext& c, DataType to) {
    RG_CHECK_STATUS(c.set(0, to, c.shape(0)));
    bool number = is_float(to) || to == DataType::I64 || to == DataType::I32;
    auto values = c.input(0).constant ? std::nullopt : c.known_values(0);
    if (number && values) c.set_values(0, std::move(*values));
    return std::nullopt;
}

Status infer_cast(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(to, target_of(n));
    return infer_to(c, to);
}

Status infer_cast_like(InferContext& c, NodeView const&) { return infer_to(c, c.dtype(1)); }

Status lower_cast(LowerContext& c, NodeView const& n) {
    auto from = c.dtype(0), to = c.output().dtype;
    auto is_plain = [](DataType type) {
        return type != DataType::String && bits_of(type) >= 8 && bits_of(type) <= 64 && type != DataType::Complex64;
    };
    if (from != to && (!is_plain(from) || !is_plain(to)))
        return unsupported("a cast from ", name_of(from), " to ", name_of(to), " at run time");
    bool narrow = is_float(to) && bits_of(to) == 8;
    if (narrow && n.integer("saturate", 1) == 0) return unsupported("saturate = 0");
    c.set_output(0, c.cast(c.edge(0), to));
    return std::nullopt;
}

}  // namespace

void define_cast(Definitions& all) {
    all.push_back({.name = "Cast",
                   .since = 6,
                   .attributes = {{"to", AttributeKind::Int, true},
                                  {"saturate", AttributeKind::Int},
                                  {"round_mode", AttributeKind::String}},
                   .infer = infer_cast,
                   .lower = lower_cast});
    all.push_back({.name = "CastLike",
                   .since = 15,
                   .inputs = {2, 2},
                   .attributes = {{"saturate", AttributeKind::Int}, {"round_mode", AttributeKind::String}},
                   .infer = infer_cast_like,
                   .lower = lower_cast});
}

}  // namespace refactor::onnx
