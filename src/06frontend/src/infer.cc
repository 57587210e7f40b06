#include "computation/compile.h"
#include "lowering.h"
#include "mem_manager/blob.h"
#include "values.h"

#include <algorithm>
#include <set>
#include <unordered_set>

namespace refactor::frontend {

std::string describe(Node const& node, std::span<Tensor const* const> inputs, SymbolTable const& symbols) {
    // Names and expressions come from the model and may be of any length.
    constexpr size_t kLongest = 200;
    auto name = node.name.size() > kLongest ? node.name.substr(0, kLongest) + "…" : node.name;
    auto text = concat("node \"", name, "\" (", node.op->describe());
    for (size_t i = 0; i < inputs.size() && text.size() < 4 * kLongest; ++i)
        text += concat(i ? ", " : "; inputs ", inputs[i] ? to_string(*inputs[i], symbols) : "none");
    return text + ")";
}

namespace {

void check_declared(Node const& node, std::span<Tensor const* const> inputs, Tensor const& output,
                    SymbolTable const& symbols, Problems& problems) {
    if (!output.is_tensor() || output.declared == DataType::Undefined || output.dtype == DataType::Undefined) return;
    if (output.declared != output.dtype)
        problems.invalid.push_back(concat(describe(node, inputs, symbols), ": output \"", output.name,
                                          "\" is declared as ", name_of(output.declared), ", but is ",
                                          name_of(output.dtype)));
}

/// What inference finds out about a node besides its outputs.
struct NodeTraits {
    bool is_procedure = false;
    std::vector<size_t> sized;  ///< inputs whose content became symbols
    std::vector<kernel::SizeCondition> conditions;
};

/// One node; why its outputs stay unknown, if they do.
Status infer_node(Node const& node, std::span<Tensor const* const> inputs, std::span<Tensor> outputs,
                  SymbolTable& symbols, Problems& problems, bool is_open, NodeTraits& traits) {
    InferContext context(inputs, outputs, symbols, is_open);
    if (auto failure = node.op->infer(context)) {
        problems.add(describe(node, inputs, symbols), *failure);
        for (auto& output : outputs) output.reset();
        return failure;
    }
    traits.sized.assign(context.sized().begin(), context.sized().end());
    traits.conditions = context.take_conditions();
    for (auto& condition : traits.conditions)
        if (condition.node.empty()) condition.node = concat(node.op->type(), " node \"", node.name, '"');
    static computation::CompileOptions const kOptions;
    traits.is_procedure =
        context.is_procedure() || node.op->is_procedure({inputs, outputs, symbols, node.name, kOptions});
    for (auto& output : outputs) {
        check_declared(node, inputs, output, symbols, problems);
        materialise(output);
    }
    auto known = [](Tensor const& tensor) { return tensor.constant || tensor.literal; };
    if (!node.op->can_fold(inputs) || std::all_of(outputs.begin(), outputs.end(), known)) return std::nullopt;
    if (std::all_of(inputs.begin(), inputs.end(), [&](Tensor const* input) { return !input || known(*input); }))
        fold(node, inputs, outputs, symbols);
    return std::nullopt;
}

}  // namespace

std::string content_symbol(Tensor const& tensor, int64_t element) { return concat(tensor.name, "[", element, "]"); }

void close_inputs(std::vector<Tensor>& inputs, SymbolTable& symbols) {
    std::set<SymbolId> bound;
    for (auto& input : inputs) {
        if (!input.constant) input.values.reset();
        for (auto const& size : input.shape.value_or(Shape{}))
            if (auto symbol = size.as_symbol()) bound.insert(*symbol);
    }
    for (auto& input : inputs) {
        if (!input.shape) continue;
        for (auto& size : *input.shape) {
            auto used = size.symbols();
            auto is_bound = [&](SymbolId symbol) { return bound.contains(symbol); };
            if (std::all_of(used.begin(), used.end(), is_bound)) continue;
            // Equal texts may be cut ones of different sizes.
            auto text = size.to_string(symbols);
            if (text.ends_with("…")) text += std::to_string(size.hash());
            size = DimExpr::symbol(symbols.intern(concat("(", text, ")")));
        }
    }
}

namespace {

/// Sizes of tensors met so far. No size is negative: one that rules have bounded below by 0 is the size itself if some
/// tensor has that.
class KnownSizes {
    struct Hash {
        size_t operator()(DimExpr const& x) const { return x.hash(); }
    };
    std::unordered_set<DimExpr, Hash> sizes_;  ///< those whose expressions could be negative

public:
    void simplify(Tensor& tensor) {
        if (!tensor.shape) return;
        for (auto& size : *tensor.shape) {
            if (auto clamped = size.as_clamped(); clamped && sizes_.contains(*clamped)) size = *clamped;
            if (size.lower_bound().value_or(-1) < 0) sizes_.insert(size);
        }
    }
};

/// One pass over the nodes.
class Walk {
    Graph const& graph_;
    SymbolTable& symbols_;
    std::span<Tensor const> earlier_;
    bool is_open_;
    KnownSizes sizes_;
    Inference result_;
    std::vector<Tensor const*> in_;
    std::vector<Tensor> out_;
    NodeTraits traits_;

    /// Whether a node's inputs are known well enough to infer it.
    bool gather_inputs(graph_topo::NodeIdx n) {
        in_.clear();
        bool ready = true;
        for (auto edge : graph_.topo.inputs(n)) {
            in_.push_back(edge == graph_topo::kNoEdge ? nullptr : &result_.tensors[edge]);
            ready = ready && (!in_.back() || in_.back()->is_complete());
        }
        return ready;
    }

    /// Takes over what has been folded before.
    bool take_earlier(graph_topo::NodeIdx n) {
        auto outputs = graph_.topo.outputs(n);
        auto folded = [&](auto edge) {
            return edge < earlier_.size() && (earlier_[edge].constant || earlier_[edge].literal);
        };
        if (outputs.empty() || !std::all_of(outputs.begin(), outputs.end(), folded)) return false;
        for (auto edge : outputs) result_.tensors[edge] = earlier_[edge];
        return true;
    }

    void note_failure(graph_topo::NodeIdx n, InferError const& failure) {
        result_.deferred[n] = true;
        if (failure.kind == InferError::Kind::NeedsValue) {
            result_.needed.push_back(graph_.topo.inputs(n)[failure.input]);
            result_.reasons.push_back(concat(describe(graph_.nodes[n], in_, symbols_), ": ", failure.text));
        } else if (failure.kind == InferError::Kind::UnknownVariable) {
            result_.reasons.push_back(
                concat(describe(graph_.nodes[n], in_, symbols_), ": the type of \"", failure.text, "\" is unknown"));
        }
    }

    void visit(graph_topo::NodeIdx n, Problems& problems) {
        auto outputs = graph_.topo.outputs(n);
        out_.clear(), traits_ = {};
        for (auto edge : outputs) out_.push_back(std::move(result_.tensors[edge]));
        auto failure = infer_node(graph_.nodes[n], in_, out_, symbols_, problems, is_open_, traits_);
        auto& sized = result_.sized;
        for (auto i : traits_.sized)
            if (auto edge = graph_.topo.inputs(n)[i]; std::find(sized.begin(), sized.end(), edge) == sized.end())
                sized.push_back(edge);
        result_.procedures[n] = traits_.is_procedure;
        result_.conditions[n] = std::move(traits_.conditions);
        if (failure) note_failure(n, *failure);
        for (size_t i = 0; i < out_.size(); ++i) {
            sizes_.simplify(out_[i]);
            result_.tensors[outputs[i]] = std::move(out_[i]);
        }
    }

public:
    Walk(Graph const& graph, SymbolTable& symbols, std::span<Tensor const> earlier, bool is_open)
        : graph_(graph), symbols_(symbols), earlier_(earlier), is_open_(is_open) {}

    Inference run(std::span<Tensor const> inputs, Problems& problems) {
        auto count = graph_.topo.node_count();
        result_.tensors = graph_.tensors;
        result_.deferred.resize(count), result_.procedures.resize(count), result_.conditions.resize(count);
        for (size_t i = 0; i < inputs.size(); ++i) {
            auto& tensor = result_.tensors[graph_.topo.global_inputs()[i]] = inputs[i];
            sizes_.simplify(tensor);
        }
        for (graph_topo::NodeIdx n = 0; n < count; ++n) {
            bool ready = gather_inputs(n);
            result_.deferred[n] = !ready;
            if (ready && !take_earlier(n)) visit(n, problems);
        }
        return std::move(result_);
    }
};

void append(std::vector<std::string>& to, std::vector<std::string> from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

Inference infer(Graph const& graph, std::vector<Tensor> inputs, SymbolTable& symbols, Problems& problems,
                std::span<Tensor const> earlier) {
    Inference result;
    Problems found;
    // Where an operator needs a number for a size that was left to the run, the content is asked for instead.
    for (bool is_open : {true, false}) {
        found = {};
        auto table = symbols;
        result = Walk(graph, table, earlier, is_open).run(inputs, found);
        bool retry = is_open && !found.empty() && table.size() > symbols.size();
        if (retry) continue;
        symbols = std::move(table);
        break;
    }
    append(problems.invalid, std::move(found.invalid)), append(problems.unsupported, std::move(found.unsupported));
    return result;
}

}  // namespace refactor::frontend
