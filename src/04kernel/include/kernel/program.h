#pragma once
#include "common/dim_expr.h"
#include "kernel/kernel.h"
#include "kernel/tuning.h"
#include "runtime/plan.h"

#include <list>
#include <map>
#include <mutex>

namespace refactor::kernel {

inline constexpr uint32_t kNoEdge = UINT32_MAX;

/// A value of the kernel graph.
struct ProgramEdge {
    std::string name;
    DataType dtype{};
    Layout layout = Layout::Plain;
    Shape shape;
    std::shared_ptr<mem_manager::Blob const> constant;  ///< row-major host data
};

/// What a node does if all it does is to move runs of elements.
struct PartRule {
    enum How : uint8_t {
        None,
        Join,   ///< output 0 is all inputs, side by side along `axis`
        Cut,    ///< the outputs, side by side along `axis`, are input 0
        Slice,  ///< output 0 is a part of input 0; the params are its first place along every axis
    } how = None;
    int64_t axis = 0;
};

/// What the layer above made a node of: kept for it, so that a Program can be written down.
class NodeOrigin {
public:
    virtual ~NodeOrigin() = default;
};

/// An operator with the kernels that accepted it. No kernels: an alias, whose output is its first input under another
/// shape.
struct ProgramNode {
    std::string name, type;
    std::vector<uint32_t> inputs, outputs;  ///< edges; `kNoEdge` where an optional input is absent
    std::vector<DimExpr> params;
    std::vector<std::unique_ptr<Kernel>> kernels;
    std::string attributes;  ///< canonical text, for tuning
    PartRule parts = {};
    std::shared_ptr<NodeOrigin const> origin = {};
    /// Equal inputs give equal outputs, which nobody asked to see: if they follow from the sizes, once for a plan.
    bool is_pure = false;
};

/// What must hold of the sizes of a run for a node to be right.
struct SizeCondition {
    std::string node;  ///< for messages: `Conv node "conv1"`
    std::string what;  ///< "the number of channels"
    DimExpr actual, expected;
    bool or_one = false;  ///< 1 holds too: it broadcasts
};

/// Everything that a Program is made of; nodes in an executable order.
struct ProgramParts {
    std::vector<ProgramEdge> edges;
    std::vector<ProgramNode> nodes;
    std::vector<uint32_t> inputs,
        outputs;  ///< edges; an output is neither an input, a constant nor an alias of one, and no two share memory
    SymbolTable symbols;
    std::vector<SizeCondition> conditions;  ///< checked for every plan, where its inputs tell the sizes
    int threads = 1;
    Isa isa = Isa::Scalar;  ///< that the kernels were asked for, as `precision`
    Precision precision = Precision::Default;
    size_t max_tensor_bytes = 0;          ///< refuse to plan larger computed tensors; 0: a quarter of the host's memory
    std::string device = "cpu";           ///< kind that the kernels run on
    std::shared_ptr<TuningTable> tuning;  ///< choices that go before estimates
    bool measure = false;                 ///< measure what `tuning` does not know whenever a plan is made
};

/// A compiled model with symbolic sizes: immutable, shared by executors, and the Planner that turns input sizes into
/// plans.
///
/// Planning a shape never seen costs evaluating the size expressions, one `bind` a node, what follows from the sizes
/// alone, and the offline memory planner. Plans are kept in an LRU cache by their input sizes.
class Program final : public runtime::Planner {
public:
    explicit Program(ProgramParts parts, size_t cached_plans = 32);
    ~Program() override;

    std::vector<runtime::PortInfo> const& inputs() const override { return inputs_; }
    std::vector<runtime::PortInfo> const& outputs() const override { return outputs_; }
    std::shared_ptr<runtime::Plan const> plan(std::span<Dims const> input_dims) override;
    /// Plans without looking into or filling the cache.
    std::shared_ptr<runtime::Plan const> make_plan(std::span<Dims const> input_dims);
    /// The plan for known values of all symbols that occur; not cached, and as it may never run nothing is computed
    /// ahead.
    std::shared_ptr<runtime::Plan const> make_plan(Bindings const& bindings);
    std::string const& node_name(uint32_t node) const override { return parts_.nodes[node].name; }
    std::string const& node_type(uint32_t node) const override { return parts_.nodes[node].type; }
    std::string const& edge_name(uint32_t edge) const override { return parts_.edges[edge].name; }
    void to_plain(runtime::Tensor const&, void const* source, void* target) const override;
    std::string_view device_kind() const override { return parts_.device; }
    void const* constant_on(mem_manager::Device&, runtime::Tensor const&) override;

    ProgramParts const& parts() const { return parts_; }
    size_t packed_bytes() const { return packs_.bytes(); }
    PackCache& packs() { return packs_; }
    PackCache const& packs() const { return packs_; }
    /// Nodes, chosen candidates and shapes, one line a node.
    std::string to_string() const;

private:
    Bindings bind_symbols(std::span<Dims const> input_dims) const;
    std::shared_ptr<runtime::Plan const> make_plan(Bindings const& bindings, size_t room_ahead);
    /// Throws `InvalidInput` for the first condition that `values`, by slot, contradict.
    void check_conditions(std::span<int64_t const> values) const;

    ProgramParts parts_;
    std::vector<runtime::PortInfo> inputs_, outputs_;
    DimProgram dims_;
    std::vector<uint32_t> edge_slots_, node_slots_;  ///< first entry of each edge (node) in `slots_`
    std::vector<uint32_t> slots_;                    ///< sizes of edges and params of nodes, as slots of `dims_`
    std::vector<uint32_t> condition_slots_;          ///< actual and expected size of each condition, likewise
    PackCache packs_;
    std::mutex constants_mutex_;
    /// Copies of constants on devices.
    std::map<std::pair<mem_manager::Device*, mem_manager::Blob const*>, std::shared_ptr<mem_manager::Blob>> constants_;

    struct CachedPlan {
        std::vector<Dims> key;
        std::shared_ptr<runtime::Plan const> plan;
    };
    std::mutex mutex_;
    std::list<CachedPlan> cache_;
    size_t cached_plans_;
};

}  // namespace refactor::kernel
