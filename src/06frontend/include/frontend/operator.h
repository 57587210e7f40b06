#pragma once
#include "computation/graph.h"
#include "frontend/tensor.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refactor::runtime {
class Procedure;
}
namespace refactor::computation {
struct CompileOptions;
}

namespace refactor::frontend {

class InferContext;
class LowerContext;
struct Graph;

/// What a node knows when it makes a procedure.
struct ProcedureContext {
    std::span<Tensor const* const> inputs;  ///< null where omitted
    std::span<Tensor const> outputs;        ///< as inferred
    SymbolTable const& symbols;
    std::string const& node_name;
    computation::CompileOptions const& options;

    bool has(size_t i) const { return i < inputs.size() && inputs[i]; }
    DataType dtype(size_t i) const { return inputs[i]->dtype; }
    InferContext view() const;
    /// The device that is compiled for; null if it is the host.
    mem_manager::Device* place() const;
};
using ProcedurePtr = std::shared_ptr<runtime::Procedure const>;

/// An operator of some framework with its attributes. Immutable.
class Operator {
public:
    virtual ~Operator() = default;
    virtual std::string_view type() const = 0;
    /// For error messages: "Conv, opset 17".
    virtual std::string describe() const = 0;
    /// Checks the inputs and sets type and shape of every output. Called only if the types of all inputs are known and
    /// their shapes have a rank.
    virtual Status infer(InferContext&) const = 0;
    /// Whether the node runs as a procedure for these types; else it is lowered. This and the next are called only
    /// after `infer` succeeded for the same inputs.
    virtual bool is_procedure(ProcedureContext const&) const { return false; }
    virtual Inferred<ProcedurePtr> procedure(ProcedureContext const&) const { return ProcedurePtr(); }
    /// Emits computation operators; called only after `infer` succeeded for the same inputs.
    virtual Status lower(LowerContext&) const = 0;
    /// Whether a node with constant inputs may be computed ahead; not if it holds sub-graphs, which fold inside.
    virtual bool can_fold(std::span<Tensor const* const>) const { return true; }
    virtual std::vector<Graph const*> graphs() const { return {}; }  ///< its sub-graphs
    /// Whether a node that reads constants alone is part of every program that reads its results, where passes see it.
    virtual bool goes_with_readers() const { return false; }
};

/// What a node knows about its operands while its outputs are inferred.
class InferContext {
    std::span<Tensor const* const> inputs_;
    std::span<Tensor> outputs_;
    SymbolTable& symbols_;
    bool is_procedure_ = false, is_open_;
    std::vector<size_t> sized_;
    std::vector<kernel::SizeCondition> conditions_;

public:
    /// `is_open`: sizes that depend on data may be left to the run.
    InferContext(std::span<Tensor const* const> inputs, std::span<Tensor> outputs, SymbolTable& symbols,
                 bool is_open = true)
        : inputs_(inputs), outputs_(outputs), symbols_(symbols), is_open_(is_open) {}

    size_t input_count() const { return inputs_.size(); }
    bool has(size_t i) const { return i < inputs_.size() && inputs_[i]; }
    /// Must be present (`has`).
    Tensor const& input(size_t i) const;
    Shape const& shape(size_t i) const { return *input(i).shape; }
    DataType dtype(size_t i) const { return input(i).dtype; }
    size_t output_count() const { return outputs_.size(); }
    SymbolTable& symbols() { return symbols_; }
    std::string text(DimExpr const& size) const { return size.to_string(symbols_); }
    std::string text(Shape const& shape) const { return refactor::to_string(shape, symbols_); }

    /// A size of output `i` that only the run can tell; the same one each time the node is inferred.
    DimExpr fresh(size_t i, size_t axis = 0);
    /// Sets the type of an output whose rank only the run can tell.
    void set_unranked(size_t i, DataType dtype);
    std::string const& output_name(size_t i) const { return outputs_[i].name; }

    /// Elements of an integer tensor as expressions, if they are known; at most `kMaxValues`.
    std::optional<std::vector<DimExpr>> known_values(size_t i) const;
    /// As `known_values`; where they depend on data, the error that defers the node until they have been computed.
    Inferred<std::vector<DimExpr>> values(size_t i, std::string_view role) const;
    /// As `values`, for sizes (≥ 0): if they depend on data, but their number does not, they are symbols that the run
    /// binds to the content. A negative one is then refused when it has been computed.
    Inferred<std::vector<DimExpr>> sizes(size_t i, std::string_view role);
    /// Inputs of which `sizes` made symbols.
    std::span<size_t const> sized() const { return sized_; }
    /// As `values`, but every one a number.
    Inferred<std::vector<int64_t>> integers(size_t i, std::string_view role) const;
    /// Elements of a constant float tensor (any float type).
    Inferred<std::vector<double>> floats(size_t i, std::string_view role) const;

    /// Refuses numbers that differ; where a size is not known yet, the run is refused if they do.
    Status expect_equal(DimExpr const& actual, DimExpr const& expected, std::string_view what);
    /// Refuses a shape that does not broadcast to `to`, which it leaves as it is; with sizes as `expect_equal`.
    Status expect_broadcast(Shape const& from, Shape const& to, std::string_view what);
    /// The run is refused unless it holds; `node` may be left to the caller of `infer`, who takes all conditions.
    void expect(kernel::SizeCondition condition) { conditions_.push_back(std::move(condition)); }
    std::vector<kernel::SizeCondition> take_conditions() { return std::move(conditions_); }

    /// Sets type and shape of an output, if there is one; refuses negative sizes, over `kMaxRank` axes or `kMaxBytes`.
    Status set(size_t i, DataType dtype, Shape shape);
    /// The elements of output `i`, which has been `set`; dropped if there are more than `kMaxValues`.
    void set_values(size_t i, std::vector<DimExpr> values);
    void set_constant(size_t i, std::shared_ptr<mem_manager::Blob const> blob);
    void set_literal(size_t i, runtime::Value value);
    /// The node has to run as a procedure, for a reason that `Operator::is_procedure` does not see.
    void make_procedure() { is_procedure_ = true; }
    bool is_procedure() const { return is_procedure_; }
    /// The same for a node whose sizes depend on data: returns whether that is allowed; else its content has to be
    /// asked for.
    bool leave_to_run() { return is_procedure_ = is_procedure_ || is_open_; }
    /// Sets an output to a sequence, optional or map with elements of type `element`; `keys` of a map.
    void set_kind(size_t i, ValueKind kind, Tensor element, DataType keys = DataType::Undefined);
    /// Gives output `i` type and content of `tensor`, but not its name.
    void copy(size_t i, Tensor const& tensor);

    static constexpr size_t kMaxValues = 1024, kMaxRank = 64, kMaxSizes = 16;
    static constexpr int64_t kMaxBytes = int64_t{1} << 40;
};

/// Emits the computation graph of one node.
class LowerContext {
public:
    using Edge = computation::EdgePtr;
    using Op = std::shared_ptr<computation::Operator const>;
    struct Spec {
        DataType dtype;
        Shape shape;
    };

    LowerContext(computation::Graph& graph, SymbolTable const& symbols, std::string const& node_name,
                 std::span<Tensor const* const> inputs, std::span<Edge const> edges, std::span<Tensor const> outputs)
        : graph_(graph),
          symbols_(symbols),
          name_(node_name),
          inputs_(inputs),
          edges_(edges),
          outputs_(outputs),
          results_(outputs.size()) {}

    size_t input_count() const { return inputs_.size(); }
    bool has(size_t i) const { return i < inputs_.size() && inputs_[i]; }
    Tensor const& tensor(size_t i) const { return *inputs_[i]; }
    Shape const& shape(size_t i) const { return *inputs_[i]->shape; }
    DataType dtype(size_t i) const { return inputs_[i]->dtype; }
    SymbolTable const& symbols() const { return symbols_; }
    /// The inputs as inference saw them, to derive the same sizes again; it has no outputs and must not make symbols.
    InferContext view() const { return {inputs_, {}, const_cast<SymbolTable&>(symbols_)}; }
    /// Where `emit` puts nodes, for sub-graphs.
    computation::Graph& graph() { return graph_; }
    /// The computation edge of input `i`; null if it is omitted.
    Edge edge(size_t i) const { return i < edges_.size() ? edges_[i] : nullptr; }
    size_t output_count() const { return outputs_.size(); }
    Tensor const& output(size_t i = 0) const { return outputs_[i]; }  ///< as inferred

    Edge emit(Op op, std::vector<Edge> const& inputs, DataType dtype, Shape shape);
    std::vector<Edge> emit_all(Op op, std::vector<Edge> const& inputs, std::vector<Spec> outputs);
    /// `emit` with type and shape of output 0, and `set_output(0)`.
    void emit_output(Op op, std::vector<Edge> const& inputs);
    Edge constant(DataType dtype, Dims const& dims, std::shared_ptr<mem_manager::Blob const> blob);
    Edge scalar(DataType dtype, double value);  ///< of a float, integer or bool type
    /// A list of f32 values.
    Edge floats(std::vector<float> const& values, Dims const& dims);
    Edge reshape(Edge edge, Shape shape);
    Edge transpose(Edge edge, std::vector<int64_t> const& perm);
    Edge cast(Edge edge, DataType dtype);

    void set_output(size_t i, Edge edge) { results_[i] = edge; }
    std::span<Edge const> results() const { return results_; }

private:
    computation::Graph& graph_;
    SymbolTable const& symbols_;
    std::string const& name_;
    std::span<Tensor const* const> inputs_;
    std::span<Edge const> edges_;
    std::span<Tensor const> outputs_;
    std::vector<Edge> results_;
    size_t emitted_ = 0;
};

}  // namespace refactor::frontend
