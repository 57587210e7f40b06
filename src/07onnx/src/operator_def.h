#pragma once
#include "frontend/attributes.h"
#include "frontend/operator.h"
#include "frontend/shape_rules.h"

#include <climits>
#include <string_view>
#include <vector>

/// What an operator source of `ops/` needs: it defines `void define_<family>(Definitions&)`, which adds one
/// `OperatorDef` for every operator and range of opsets that differ in their inputs or attributes.
namespace refactor::onnx {

using frontend::InferContext;
using frontend::InferError;
using frontend::Inferred;
using frontend::invalid;
using frontend::LowerContext;
using frontend::Status;
using frontend::unsupported;

/// In the order of `frontend::Attribute`.
enum class AttributeKind : uint8_t { Int, Float, String, Ints, Floats, Strings, Tensor, Graph, Type };

struct AttributeDef {
    std::string_view name;
    AttributeKind kind;
    bool required = false;
};

/// A set of `DataType`s.
using TypeSet = uint32_t;
constexpr TypeSet types() { return 0; }
template <class... T>
constexpr TypeSet types(DataType first, T... rest) {
    return TypeSet{1} << static_cast<int>(first) | types(rest...);
}
inline constexpr TypeSet kFloats = types(DataType::F32, DataType::F64, DataType::F16, DataType::BF16);
inline constexpr TypeSet kSigned = types(DataType::I8, DataType::I16, DataType::I32, DataType::I64);
inline constexpr TypeSet kUnsigned = types(DataType::U8, DataType::U16, DataType::U32, DataType::U64);
inline constexpr TypeSet kIntegers = kSigned | kUnsigned;
inline constexpr TypeSet kNumbers = kFloats | kIntegers;
inline constexpr TypeSet kBool = types(DataType::Bool);
inline constexpr TypeSet kIndices = types(DataType::I32, DataType::I64);
inline constexpr TypeSet kI64 = types(DataType::I64);
inline constexpr TypeSet kAny = ~TypeSet{0};

/// A set of `ValueKind`s.
using KindSet = uint8_t;
constexpr KindSet kinds() { return 0; }
template <class... T>
constexpr KindSet kinds(frontend::ValueKind first, T... rest) {
    return static_cast<KindSet>(1 << static_cast<int>(first) | kinds(rest...));
}
inline constexpr KindSet kTensors = kinds(frontend::ValueKind::Tensor);
inline constexpr KindSet kSequences = kinds(frontend::ValueKind::Sequence);
inline constexpr KindSet kOptionals = kinds(frontend::ValueKind::Optional);
inline constexpr KindSet kMaps = kinds(frontend::ValueKind::Map);
inline constexpr KindSet kAnyKind = 0xff;

/// What an input may be; tensors of one group have the same type.
struct InputDef {
    TypeSet types = kAny;
    char group = 0;
    KindSet kinds = kTensors;
};

/// Attributes of one node and the opset that decides its semantics.
class NodeView {
    frontend::Attributes const& attributes_;

public:
    std::string_view op_type;
    int64_t opset;

    NodeView(frontend::Attributes const& attributes, std::string_view type, int64_t version)
        : attributes_(attributes), op_type(type), opset(version) {}

    bool has(std::string_view name) const { return frontend::find(attributes_, name); }
    /// The attribute, whose kind has been checked, or null.
    template <class T>
    T const* get(std::string_view name) const {
        auto* attribute = frontend::find(attributes_, name);
        return attribute ? std::get_if<T>(attribute) : nullptr;
    }
    int64_t integer(std::string_view name, int64_t fallback) const {
        auto* value = get<int64_t>(name);
        return value ? *value : fallback;
    }
    float number(std::string_view name, float fallback) const {
        auto* value = get<float>(name);
        return value ? *value : fallback;
    }
    std::string_view text(std::string_view name, std::string_view fallback) const {
        auto* value = get<std::string>(name);
        return value ? std::string_view(*value) : fallback;
    }
    std::vector<int64_t> integers(std::string_view name) const {
        auto* value = get<std::vector<int64_t>>(name);
        return value ? *value : std::vector<int64_t>{};
    }
};

using InferFunction = Status (*)(InferContext&, NodeView const&);
using LowerFunction = Status (*)(LowerContext&, NodeView const&);
using ProcedureFunction = Inferred<frontend::ProcedurePtr> (*)(frontend::ProcedureContext const&, NodeView const&);

struct Arity {
    int least = 1, most = 1;
};
inline constexpr int kVariadic = INT_MAX;

struct OperatorDef {
    std::string_view name = {};
    int64_t since = 1;
    Arity inputs = {}, outputs = {};
    std::vector<InputDef> types = {};  ///< by input; the last one holds for all further ones, none: anything
    std::vector<AttributeDef> attributes = {};
    InferFunction infer = nullptr;  ///< null: removed in this opset
    LowerFunction lower = nullptr;  ///< null: always a procedure
    std::string_view domain = {};
    ProcedureFunction procedure = nullptr;  ///< null: never a procedure
    /// Whether the node is a procedure for these types; null: always, if there is no `lower`.
    bool (*is_procedure)(frontend::ProcedureContext const&, NodeView const&) = nullptr;
    size_t padded_inputs = 0;  ///< captured values come behind at least so many inputs
};

/// Where operator sources put their definitions.
using Definitions = std::vector<OperatorDef>;

/// Output `i` has type and shape of input `i`'s first; for elementwise operators with one input.
Status infer_same(InferContext&, NodeView const&);

}  // namespace refactor::onnx
