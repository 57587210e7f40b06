#pragma once
#include "frontend/attributes.h"
#include "frontend/custom_operator.h"
#include "frontend/model.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace refactor::onnx {

class GraphBuilder;

/// A size as declared: unknown, a number, or the name of a symbol.
using DeclaredDim = std::variant<std::monostate, int64_t, std::string>;
/// Nothing: not even the rank is known.
using DeclaredShape = std::optional<std::vector<DeclaredDim>>;

/// A type as declared.
struct DeclaredType {
    int64_t dtype = 0;    ///< ONNX code; of the keys of a map; 0: not declared
    DeclaredShape shape;  ///< of a tensor
    frontend::ValueKind kind = frontend::ValueKind::Tensor;
    std::shared_ptr<DeclaredType const> element = nullptr;  ///< of a sequence or an optional; values of a map
};

/// Content of a tensor as found in the model: nothing about it has been checked. `blob` must hold row-major data in the
/// form of `storage_bytes` (null for strings).
struct RawTensor {
    int64_t dtype = 0;  ///< ONNX code
    std::vector<int64_t> dims;
    std::shared_ptr<mem_manager::Blob const> blob;
    std::vector<std::string> strings = {};
    /// The caller could not read it and has said why (`ModelBuilder::add_invalid`): nothing more is said about it.
    bool refused = false;
};

/// The value of an attribute as found in the model; a sub-graph is a builder that has been filled.
using RawAttribute = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                                  std::vector<std::string>, RawTensor, std::shared_ptr<GraphBuilder>, DeclaredType>;
using RawAttributes = std::vector<std::pair<std::string, RawAttribute>>;

/// Takes in one ONNX graph (main or sub-graph) piece by piece, in any order, and checks nothing until
/// `ModelBuilder::build`.
///
/// Model-local functions have been inlined and external data mapped by the caller. dtypes are the codes of
/// `TensorProto.DataType`.
class GraphBuilder {
public:
    void add_input(std::string name, DeclaredType type);
    void add_input(std::string name, int64_t dtype, DeclaredShape shape);
    /// A declared output; `dtype` 0 and no shape if the model does not say.
    void add_output(std::string name, DeclaredType type);
    void add_output(std::string name, int64_t dtype, DeclaredShape shape);
    /// `value_info`: what the model claims about an intermediate value.
    void add_value_info(std::string name, DeclaredType type);
    void add_value_info(std::string name, int64_t dtype, DeclaredShape shape);
    void add_initializer(std::string name, RawTensor tensor);
    /// Omitted optional inputs and outputs have empty names. `version` of the domain, as the function imports it that
    /// the node comes from; 0: as the model does.
    void add_node(std::string name, std::string domain, std::string op_type, std::vector<std::string> inputs,
                  std::vector<std::string> outputs, RawAttributes attributes, int64_t version = 0);
    /// A node whose problem the caller reports: others may read its results, whose types are not known.
    void add_refused(std::string name, std::vector<std::string> inputs, std::vector<std::string> outputs);

private:
    friend class Importer;
    struct Value {
        std::string name;
        DeclaredType type;
    };
    struct Initializer {
        std::string name;
        RawTensor tensor;
    };
    struct Node {
        std::string name, domain, op_type;
        std::vector<std::string> inputs, outputs;
        RawAttributes attributes;
        int64_t version = 0;
        bool refused = false;
    };
    std::vector<Value> inputs_, outputs_, value_infos_;
    std::vector<Initializer> initializers_;
    std::vector<Node> nodes_;
};

/// Builds the frontend model of an ONNX model. Example:
///
///     onnx::ModelBuilder builder;
///     builder.add_opset("", 17);
///     builder.graph().add_input("x", 1, {{"N", int64_t{3}}});
///     builder.graph().add_node("relu0", "", "Relu", {"x"}, {"y"}, {});
///     builder.graph().add_output("y", 1, {});
///     frontend::Model model = std::move(builder).build();
class ModelBuilder {
public:
    void set_ir_version(int64_t version) { ir_version_ = version; }
    void add_opset(std::string domain, int64_t version);
    /// An operator for nodes that no built-in one is for. Of several for one node the last one counts.
    void add_custom(std::shared_ptr<frontend::CustomOperator const> op) { customs_.push_back(std::move(op)); }
    GraphBuilder& graph() { return graph_; }

    /// Something that the caller found wrong (or not supported) while reading: reported by `build` together with
    /// everything else.
    void add_invalid(std::string problem) { invalid_.push_back(std::move(problem)); }
    void add_unsupported(std::string problem) { unsupported_.push_back(std::move(problem)); }

    /// Checks structure, operators, attributes, types and shapes, folds constants. Throws `InvalidModel` (or
    /// `Unsupported` if nothing is illegal) listing every problem found.
    frontend::Model build() &&;

private:
    friend class Importer;
    std::optional<int64_t> ir_version_;
    std::vector<std::pair<std::string, int64_t>> opsets_;
    GraphBuilder graph_;
    frontend::CustomOperators customs_;
    std::vector<std::string> invalid_, unsupported_;
};

/// Whether `domain::op_type` has a native importer in version `opset` of its domain ("" and "ai.onnx" are the same): if
/// not, callers may expand its ONNX function body instead.
bool is_supported(std::string_view domain, std::string_view op_type, int64_t opset);
/// Newest version of the default domain that is understood.
int64_t newest_opset();

/// An operator with a native importer, and the versions of its domain that one definition holds for.
struct SupportedOperator {
    std::string domain, op_type;
    int64_t first = 1;
    std::optional<int64_t> last;  ///< none: up to the newest
};
/// All of them, sorted by domain, name and version.
std::vector<SupportedOperator> supported_operators();

}  // namespace refactor::onnx
