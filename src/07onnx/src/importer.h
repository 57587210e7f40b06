#pragma once
#include "graph_topo/builder.h"
#include "onnx/model_builder.h"

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace refactor::onnx {

/// Names come from the model and may be of any length: the beginning of a long one.
std::string shortened(std::string const& name);

/// Turns what a `ModelBuilder` took in into a frontend model, collecting every problem on the way. Used once.
class Importer {
public:
    explicit Importer(ModelBuilder& source);
    /// Throws `InvalidModel` or `Unsupported` listing all problems.
    frontend::Model run();

private:
    using Names = std::unordered_set<std::string>;
    struct Imported {
        frontend::Graph graph;
        std::vector<std::string> captures;  ///< outer names, in the order of the last global inputs
    };

    /// Values that Identity nodes of one graph give other names to.
    class Copies {
        std::unordered_map<std::string, std::string> originals_;

    public:
        explicit Copies(std::vector<GraphBuilder::Node> const& nodes);
        void add(std::string copy, std::string original) { originals_.emplace(std::move(copy), std::move(original)); }
        /// What `name` is a copy of.
        std::string const& original(std::string const& name) const;
    };
    class LoopRewrite;
    using OuterNodes = std::vector<GraphBuilder::Node>;
    using IsMatrix = std::function<bool(std::string const&)>;
    /// One graph on its way in.
    class GraphImport {
        Importer& importer_;
        GraphBuilder& source_;
        Names const* outer_;
        graph_topo::Builder<std::string, std::string, frontend::Node, frontend::Tensor> maker_;
        Names local_, inputs_, captured_;
        std::vector<std::string> captures_;

        void add_values();
        void add_nodes();
        void define(std::string const& name);
        void use(std::string const& name);
        void declare(GraphBuilder::Value const& value);

    public:
        GraphImport(Importer& importer, GraphBuilder& source, Names const* outer)
            : importer_(importer), source_(source), outer_(outer) {}
        std::optional<Imported> run();
    };

    ModelBuilder& source_;
    SymbolTable symbols_;
    frontend::Problems problems_;
    std::unordered_map<std::string, int64_t> opsets_;
    int depth_ = 0;
    size_t refused_ = 0;  ///< tensors and nodes that the caller has reported

    void check_versions();
    /// Grows with everything that keeps a node or a graph from being imported.
    size_t failures() const { return problems_.invalid.size() + problems_.unsupported.size() + refused_; }
    void add_invalid(std::string problem) { problems_.invalid.push_back(std::move(problem)); }

    /// `outer`: names that are visible around a sub-graph; null for the main graph.
    std::optional<Imported> import(GraphBuilder& graph, Names const* outer);
    frontend::Tensor input_tensor(GraphBuilder::Value const& value);
    /// Type of the value `name`; `is_optional`: it may leave out the element type.
    frontend::Tensor declared_type(std::string const& name, DeclaredType const& type, bool is_optional);
    std::optional<Shape> declared_shape(std::string const& name, DeclaredType const& type);
    std::optional<frontend::TensorValue> tensor_value(RawTensor& raw, std::string const& what);
    frontend::Attributes attributes(GraphBuilder::Node& node, std::string const& label, Names const& visible,
                                    std::vector<std::string>& captures);
    std::shared_ptr<frontend::Operator const> node_operator(GraphBuilder::Node& node, std::string const& label,
                                                            Names const& visible);
    /// Makes the body of Loop or Scan read from outside what does not depend on the iteration: states that it carries
    /// around unchanged (where constants are known), and products of the sequences whose elements it takes one by one.
    /// Returns nodes to add around `node`. `is_matrix`: an outer constant of two axes; `taken`: names around it.
    OuterNodes take_out_of_loop(GraphBuilder::Node& node, std::string const& label, IsMatrix const& is_matrix,
                                Names const& taken);
    /// Of an operator that is not built in; null after reporting that nobody else has defined it either.
    std::shared_ptr<frontend::Operator const> custom_operator(GraphBuilder::Node const& node, std::string const& label,
                                                              int64_t version, frontend::Attributes attributes);
};

}  // namespace refactor::onnx
