#include "deferred.h"

#include "common/error.h"
#include "frontend/compile.h"
#include "graph_topo/builder.h"
#include "mem_manager/blob.h"

#include <algorithm>
#include <list>
#include <map>
#include <mutex>

namespace refactor::frontend {

namespace {

using graph_topo::EdgeIdx;
using graph_topo::kNoEdge;
using graph_topo::kNoNode;
using graph_topo::NodeIdx;
using runtime::Session;
using runtime::Value;

using ExecutablePtr = std::shared_ptr<runtime::Executable const>;

// Enough for the shapes that alternate in practice; what falls out is compiled again.
constexpr size_t kKept = 64;

/// Sessions for what has been compiled.
class State final : public runtime::ProcedureState {
public:
    std::map<runtime::Executable const*, std::pair<ExecutablePtr, std::unique_ptr<Session>>> sessions;

    std::string recording_state() const override {
        std::string text;
        for (auto const& [key, entry] : sessions) text += entry.second->recording_state();
        return text;
    }
};

class DeferredGraph final : public runtime::Procedure {
    Graph graph_;
    mutable SymbolTable symbols_;
    computation::CompileOptions options_;

    struct Entry {
        std::string key;
        ExecutablePtr executable;
    };
    mutable std::mutex mutex_;
    mutable std::list<Entry> cache_;        ///< most recent first
    mutable std::vector<bool> by_content_;  ///< inputs whose content decides
    mutable bool by_size_ = false;          ///< symbolic sizes were not enough

    std::string key_of(std::span<Value const* const> inputs) const {
        std::string key;
        auto add = [&](auto number) { key.append(reinterpret_cast<char const*>(&number), sizeof number); };
        for (size_t i = 0; i < inputs.size(); ++i) {
            auto const& value = *inputs[i];
            add(value.kind), add(value.dtype), add(value.dims.size());
            if (by_size_ || by_content_[i])
                for (auto size : value.dims) add(size);
            if (by_content_[i] && value.blob) key.append(on_host(value).data<char>(), value.blob->bytes());
        }
        return key;
    }

    Tensor type_of(size_t i, Value const& value) const {
        auto tensor = graph_.tensors[graph_.topo.global_inputs()[i]];
        tensor.kind = value.kind;
        if (value.kind != ValueKind::Tensor) {
            if (by_content_[i]) tensor.literal = std::make_shared<Value const>(on_host(value));
            return tensor;
        }
        tensor.dtype = value.dtype;
        if (by_size_ || by_content_[i]) {
            tensor.shape.emplace(value.dims.begin(), value.dims.end());
        } else if (!tensor.shape || tensor.shape->size() != value.dims.size()) {
            tensor.shape.emplace();
            for (size_t axis = 0; axis < value.dims.size(); ++axis)
                tensor.shape->push_back(DimExpr::symbol(symbols_.intern(concat(tensor.name, ".", axis))));
        }
        if (!by_content_[i]) return tensor;
        tensor.values.reset();
        if (value.blob)
            tensor.constant = Blob::copy_of(on_host(value).data<std::byte>(), value.blob->bytes());
        else
            tensor.literal = std::make_shared<Value const>(value);
        return tensor;
    }
    using Blob = mem_manager::Blob;

    /// What is known of the graph for these inputs; asks for the contents of inputs until that no longer helps.
    Inference infer_for(std::span<Value const* const> inputs, SymbolTable& symbols) const {
        for (;;) {
            std::vector<Tensor> types;
            for (size_t i = 0; i < inputs.size(); ++i) types.push_back(type_of(i, *inputs[i]));
            symbols = symbols_;
            close_inputs(types, symbols);
            Problems problems;
            auto inference = infer(graph_, std::move(types), symbols, problems);
            problems.raise();
            bool asked = false;
            for (auto edge : inference.needed) {
                auto position = std::find(graph_.topo.global_inputs().begin(), graph_.topo.global_inputs().end(), edge);
                if (position == graph_.topo.global_inputs().end()) continue;
                auto i = static_cast<size_t>(position - graph_.topo.global_inputs().begin());
                asked = asked || !by_content_[i];
                by_content_[i] = true;
            }
            if (asked) continue;
            auto stuck = std::all_of(inference.deferred.begin(), inference.deferred.end(), [](bool d) { return d; });
            if (!stuck) return inference;
            if (by_size_) {
                std::string text = "what these nodes need is not known when they run:";
                for (auto const& reason : inference.reasons) text += "\n  " + reason;
                throw Unsupported(text);
            }
            by_size_ = true;
        }
    }

    ExecutablePtr compile_for(std::span<Value const* const> inputs) const {
        SymbolTable symbols;
        try {
            auto inference = infer_for(inputs, symbols);
            return compile(graph_, inference, symbols, options_).executable;
        } catch (Unsupported const&) {
            if (by_size_) throw;
        } catch (InvalidModel const&) {
            if (by_size_) throw;
        }
        by_size_ = true;
        auto inference = infer_for(inputs, symbols);
        return compile(graph_, inference, symbols, options_).executable;
    }

    ExecutablePtr executable_for(std::span<Value const* const> inputs) const {
        std::lock_guard lock(mutex_);
        auto key = key_of(inputs);
        for (auto it = cache_.begin(); it != cache_.end(); ++it) {
            if (it->key != key) continue;
            cache_.splice(cache_.begin(), cache_, it);
            return it->executable;
        }
        auto fresh = compile_for(inputs);
        // What decides may have grown while compiling.
        cache_.push_front({key_of(inputs), fresh});
        if (cache_.size() > kKept) cache_.pop_back();
        return fresh;
    }

public:
    DeferredGraph(Graph graph, SymbolTable symbols, computation::CompileOptions options)
        : graph_(std::move(graph)),
          symbols_(std::move(symbols)),
          options_(std::move(options)),
          by_content_(graph_.topo.global_inputs().size()) {
        options_.keep.clear();
    }

    std::string id() const override { return "deferred:cpu:compile:any"; }
    bool runs_graphs() const override { return true; }
    std::unique_ptr<runtime::ProcedureState> make_state() const override { return std::make_unique<State>(); }

    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const& context) const override {
        auto executable = executable_for(inputs);
        auto& sessions = static_cast<State&>(*context.state).sessions;
        auto found = sessions.find(executable.get());
        if (found == sessions.end()) {
            if (sessions.size() >= kKept) sessions.clear();
            auto session = std::make_unique<Session>(executable, context.allocator, 0, context.device, context.pool);
            found = sessions.emplace(executable.get(), std::pair(executable, std::move(session))).first;
        }
        auto& session = *found->second.second;
        if (session.allows_recording() != context.may_record) session.allow_recording(context.may_record);
        for (size_t i = 0; i < inputs.size(); ++i) session.set_input(i, *inputs[i]);
        session.run(context.options);
        for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = session.device_output(i);
    }
};

}  // namespace

ProcedurePtr make_deferred(Graph const& graph, Inference const& inference, std::vector<bool> const& nodes,
                           SymbolTable const& symbols, computation::CompileOptions const& options,
                           std::vector<EdgeIdx>& operands, std::vector<EdgeIdx>& results) {
    auto const& topo = graph.topo;
    graph_topo::Builder<NodeIdx, EdgeIdx, Node, Tensor> builder;
    std::vector<bool> seen(topo.edge_count());
    builder.omitted = kNoEdge;
    auto is_inside = [&](EdgeIdx edge) {
        auto producer = topo.producer(edge).node;
        return producer != kNoNode && nodes[producer];
    };
    auto take = [&](EdgeIdx edge) {
        if (edge == kNoEdge || seen[edge]) return;
        seen[edge] = true;
        auto const& tensor = inference.tensors[edge];
        builder.edges[edge] = tensor;
        if (is_inside(edge)) return;
        if (tensor.constant || tensor.literal) {
            builder.sources.push_back(edge);
        } else {
            builder.global_inputs.push_back(edge), operands.push_back(edge);
        }
    };
    for (NodeIdx n = 0; n < topo.node_count(); ++n) {
        if (!nodes[n]) continue;
        std::vector<EdgeIdx> inputs(topo.inputs(n).begin(), topo.inputs(n).end());
        std::vector<EdgeIdx> outputs(topo.outputs(n).begin(), topo.outputs(n).end());
        for (auto edge : inputs) take(edge);
        for (auto edge : outputs) take(edge);
        builder.add(n, graph.nodes[n], std::move(inputs), std::move(outputs));
    }
    for (auto edge : topo.global_outputs())
        if (is_inside(edge) && std::find(results.begin(), results.end(), edge) == results.end())
            builder.global_outputs.push_back(edge), results.push_back(edge);
    auto built = std::move(builder).build();
    ensure(built.ok(), "a part of a graph is no graph");
    Graph part;
    part.topo = std::move(built->graph.topo), part.nodes = std::move(built->graph.nodes);
    part.tensors = std::move(built->graph.edges);
    part.formal_inputs = operands.size();
    return std::make_shared<DeferredGraph>(std::move(part), symbols, options);
}

}  // namespace refactor::frontend
