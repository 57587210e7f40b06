#include "computation/operator.h"
#include "frontend/expression.h"
#include "frontend/recorded.h"
#include "kernel/ops/quantize.h"
#include "operator_def.h"
#include "size_values.h"

#include <algorithm>
#include <array>

// Cast since opset 6, CastLike and BitCast.

namespace refactor::onnx {

namespace {

constexpr TypeSet kCast1 = types(DataType::F16, DataType::F32, DataType::F64, DataType::Bool) | kIntegers;
constexpr TypeSet kCast9 = kCast1 | types(DataType::String);
constexpr TypeSet kCast13 = kCast9 | types(DataType::BF16);
constexpr TypeSet kCast19 =
    kCast13 | types(DataType::F8E4M3FN, DataType::F8E4M3FNUZ, DataType::F8E5M2, DataType::F8E5M2FNUZ);
constexpr TypeSet kCast21 = kCast19 | types(DataType::U4, DataType::I4);
constexpr TypeSet kCast23 = kCast21 | types(DataType::F4E2M1);
constexpr TypeSet kCast24 = kCast23 | types(DataType::F8E8M0);
constexpr TypeSet kCast25 = kCast24 | types(DataType::U2, DataType::I2);
constexpr std::array kVersions{std::pair{1, kCast1},   std::pair{9, kCast9},   std::pair{13, kCast13},
                               std::pair{19, kCast19}, std::pair{21, kCast21}, std::pair{23, kCast23},
                               std::pair{24, kCast24}, std::pair{25, kCast25}};

TypeSet types_at(int64_t opset) {
    auto found = kVersions[0].second;
    for (auto [since, types] : kVersions)
        if (since <= opset) found = types;
    return found;
}

Inferred<DataType> target_of(NodeView const& n) {
    auto code = n.integer("to", 0);
    if (code == 27 || code == 28) return Err{unsupported("a 6-bit float")};
    auto dtype = data_type_from_onnx(code);
    if (!dtype) return Err{invalid("the target type ", code, " does not exist")};
    return *dtype;
}

Inferred<ScaleRounding> rounding_of(NodeView const& n) {
    auto mode = n.text("round_mode", "up");
    if (mode == "up") return ScaleRounding::Up;
    if (mode == "down") return ScaleRounding::Down;
    if (mode == "nearest") return ScaleRounding::Nearest;
    return Err{invalid("round_mode is \"", mode, "\", expected \"up\", \"down\" or \"nearest\"")};
}

Status infer_to(InferContext& c, NodeView const& n, DataType to) {
    for (auto type : {c.dtype(0), to})
        if (!(types_at(n.opset) >> static_cast<int>(type) & 1))
            return invalid("a cast from ", name_of(c.dtype(0)), " to ", name_of(to), " does not exist in opset ",
                           n.opset);
    RG_TRY_STATUS(rounding, rounding_of(n));
    RG_CHECK_STATUS(c.set(0, to, c.shape(0)));
    bool number = to == DataType::F32 || to == DataType::F64 || to == DataType::I64 || to == DataType::I32;
    auto values = c.input(0).constant ? std::nullopt : c.known_values(0);
    if (number && values) c.set_values(0, std::move(*values));
    return std::nullopt;
}

Status infer_cast(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(to, target_of(n));
    return infer_to(c, n, to);
}

Status infer_cast_like(InferContext& c, NodeView const& n) { return infer_to(c, n, c.dtype(1)); }

/// Whether the Expression engine converts as the standard asks: it has no packed types, saturates, and passes through
/// f32 on the way to smaller floats, which rounds wider numbers twice; not integers on the way to f16, whose range f32
/// holds exactly.
bool is_expression(DataType from, DataType to, bool saturate) {
    auto whole = [](DataType type) { return bits_of(type) >= 8 && type != DataType::F8E8M0; };
    bool small = is_float(to) && bits_of(to) <= 16, wide = bits_of(from) > 16 && from != DataType::F32;
    bool twice = small && wide && !(to == DataType::F16 && is_integer(from));
    return whole(from) && whole(to) && !twice && (saturate || !is_float(to) || bits_of(to) > 8);
}

Status lower_cast(LowerContext& c, NodeView const& n) {
    auto from = c.dtype(0), to = c.output().dtype;
    bool saturate = n.integer("saturate", 1) != 0;
    RG_TRY_STATUS(rounding, rounding_of(n));
    if (from == to || is_expression(from, to, saturate)) {
        c.set_output(0, c.cast(c.edge(0), to));
    } else {
        kernel::ConvertInfo info{.saturate = saturate};
        // Decides nothing elsewhere: equal conversions have equal attributes.
        if (to == DataType::F8E8M0) info.rounding = rounding;
        c.emit_output(computation::make_operator(info), {c.edge(0)});
    }
    return std::nullopt;
}

bool casts_text(frontend::ProcedureContext const& p, NodeView const&) {
    return p.dtype(0) == DataType::String || p.outputs[0].dtype == DataType::String;
}

Inferred<frontend::ProcedurePtr> cast_procedure(frontend::ProcedureContext const& p, NodeView const& n) {
    RG_TRY(rounding, rounding_of(n));
    return frontend::record<kernel::make_text_cast>(
        kernel::TextCastInfo{p.dtype(0), p.outputs[0].dtype, n.integer("saturate", 1) != 0, rounding});
}

Status infer_bit_cast(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(to, target_of(n));
    auto from = c.dtype(0);
    if (from == DataType::String || to == DataType::String) return invalid("strings have no bit pattern");
    if (bits_of(from) != bits_of(to))
        return invalid("the target type ", name_of(to), " has ", bits_of(to), " bits, expected ", bits_of(from), " as ",
                       name_of(from));
    return c.set(0, to, c.shape(0));
}

Status lower_bit_cast(LowerContext& c, NodeView const&) {
    if (c.dtype(0) == c.output().dtype)
        c.set_output(0, c.edge(0));
    else
        c.emit_output(computation::make_operator(kernel::ConvertInfo{.reinterpret = true}), {c.edge(0)});
    return std::nullopt;
}

}  // namespace

void define_cast(Definitions& all) {
    using K = AttributeKind;
    OperatorDef cast{.name = "Cast",
                     .since = 6,
                     .attributes = {{"to", K::Int, true}},
                     .infer = infer_cast,
                     .lower = lower_cast,
                     .procedure = cast_procedure,
                     .is_procedure = casts_text};
    auto like = cast;
    like.name = "CastLike", like.since = 15, like.inputs = {2, 2}, like.attributes = {}, like.infer = infer_cast_like;
    all.push_back(cast);
    all.push_back(like);
    for (auto* def : {&cast, &like}) {
        def->since = 19, def->attributes.push_back({"saturate", K::Int});
        all.push_back(*def);
        def->since = 24, def->attributes.push_back({"round_mode", K::String});
        all.push_back(*def);
    }
    all.push_back({.name = "BitCast",
                   .since = 26,
                   .attributes = {{"to", K::Int, true}},
                   .infer = infer_bit_cast,
                   .lower = lower_bit_cast});
}

}  // namespace refactor::onnx
