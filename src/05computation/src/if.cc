#include "computation/if.h"

#include "common/error.h"
#include "common/thread_pool.h"
#include "saved/flat_model.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

namespace refactor::computation {

namespace {

/// A branch that can be compiled any number of times.
struct FrozenBranch {
    graph_topo::Graph<Node, Edge> graph;
    SymbolTable symbols;
    std::vector<std::string> output_names;
    std::vector<kernel::SizeCondition> conditions;
    std::vector<uint32_t> captures;

    explicit FrozenBranch(Branch branch)
        : graph(std::move(branch.model.graph).sort()),
          symbols(std::move(branch.model.symbols)),
          output_names(std::move(branch.model.output_names)),
          conditions(std::move(branch.model.conditions)),
          captures(std::move(branch.captures)) {}
    Model thaw() const { return {Graph(graph), symbols, output_names, conditions}; }
};

void collect_symbols(FrozenBranch const& branch, std::set<SymbolId>& symbols) {
    auto add = [&](DimExpr const& size) {
        for (auto symbol : size.symbols()) symbols.insert(symbol);
    };
    for (auto const& edge : branch.graph.edges)
        for (auto const& size : edge.shape) add(size);
    for (auto const& node : branch.graph.nodes)
        for (auto const& param : node.op->params()) add(param);
}

/// A compiled branch and where its inputs come from.
struct CompiledBranch {
    std::shared_ptr<kernel::Program> program;
    std::vector<uint32_t> captures;
};

/// A plan of a branch, run from inside a step: the table of argument addresses and the arena are in the workspace.
class BranchRun {
    std::shared_ptr<kernel::Program> program_;
    std::shared_ptr<runtime::Plan const> plan_;
    std::vector<uint32_t> captures_;
    uint32_t outputs_from_;

    size_t table_bytes() const { return (plan_->arguments.size() * sizeof(void*) + 63) & ~size_t(63); }

    void* address(runtime::Tensor const& tensor, void* const* arguments, std::byte* arena) const {
        switch (tensor.storage) {
            case runtime::Storage::Arena:
                return arena + plan_->blocks[tensor.index].offset + tensor.offset;
            case runtime::Storage::Constant:
                return const_cast<void*>(tensor.address);
            case runtime::Storage::Input:
                return arguments[captures_[tensor.index]];
            case runtime::Storage::Output:
                return arguments[outputs_from_ + tensor.index];
        }
        throw InternalError("unknown storage");
    }

public:
    BranchRun(CompiledBranch const& branch, Bindings const& bindings, uint32_t outputs_from)
        : program_(branch.program),
          plan_(branch.program->make_plan(bindings)),
          captures_(branch.captures),
          outputs_from_(outputs_from) {}

    size_t workspace_bytes() const { return table_bytes() + plan_->arena_bytes; }
    size_t scratch_bytes() const { return plan_->scratch_bytes; }
    runtime::Plan const& plan() const { return *plan_; }

    void run(void* const* arguments, runtime::RunContext const& context) const {
        auto** table = reinterpret_cast<void**>(context.workspace);
        auto* arena = context.workspace + table_bytes();
        for (size_t i = 0; i < plan_->arguments.size(); ++i) {
            auto number = plan_->arguments[i];
            table[i] = number == runtime::kNoTensor ? nullptr : address(plan_->tensors[number], arguments, arena);
        }
        runtime::RunContext contexts[] = {
            context, {calling_thread(), nullptr, context.stream, context.fault, context.scratch, context.scratch_step}};
        for (size_t i = 0; i < plan_->steps.size(); ++i) {
            auto const& step = plan_->steps[i];
            auto& inner = contexts[step.alone];
            auto block = plan_->workspace_blocks[i];
            inner.workspace = block == runtime::kNoTensor ? nullptr : arena + plan_->blocks[block].offset;
            try {
                step.task->run(table + step.first_argument, inner);
            } catch (Error& error) {
                error.add_context(program_->node_type(step.node) + " node \"" + program_->node_name(step.node) + '"');
                throw;
            }
        }
    }
};

/// A branch with its sizes, or why it cannot run with them: that matters only if it is taken.
class BoundBranch {
    std::optional<BranchRun> run_;
    std::function<void()> fail_;

    template <class E>
    static std::function<void()> thrower(E const& error) {
        return [error] { throw error; };
    }

public:
    BoundBranch(CompiledBranch const& branch, Bindings const& bindings, uint32_t outputs_from) {
        try {
            run_.emplace(branch, bindings, outputs_from);
        } catch (InvalidInput const& error) {
            fail_ = thrower(error);
        } catch (Unsupported const& error) {
            fail_ = thrower(error);
        } catch (OutOfMemory const& error) {
            fail_ = thrower(error);
        }
    }
    /// Null if it cannot run.
    BranchRun const* get() const { return run_ ? &*run_ : nullptr; }
    size_t workspace_bytes() const { return run_ ? run_->workspace_bytes() : 0; }
    size_t scratch_bytes() const { return run_ ? run_->scratch_bytes() : 0; }
    void run(void* const* arguments, runtime::RunContext const& context) const {
        if (!run_) fail_();
        run_->run(arguments, context);
    }
};

class IfTask final : public runtime::Task {
    BoundBranch then_, else_;

public:
    IfTask(BoundBranch then_run, BoundBranch else_run) : then_(std::move(then_run)), else_(std::move(else_run)) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto condition = *static_cast<uint8_t const*>(arguments[0]) != 0;
        (condition ? then_ : else_).run(arguments, context);
    }
    size_t workspace_bytes() const override { return std::max(then_.workspace_bytes(), else_.workspace_bytes()); }
    size_t scratch_bytes() const override { return std::max(then_.scratch_bytes(), else_.scratch_bytes()); }
};

class IfKernel final : public kernel::Kernel {
    CompiledBranch then_, else_;
    std::vector<SymbolId> symbols_;
    size_t table_size_;

public:
    IfKernel(CompiledBranch then_branch, CompiledBranch else_branch, std::vector<SymbolId> symbols, size_t table_size)
        : then_(std::move(then_branch)),
          else_(std::move(else_branch)),
          symbols_(std::move(symbols)),
          table_size_(table_size) {}
    std::string id() const override { return "if:cpu:branches:any"; }

    Result<std::unique_ptr<runtime::Task>, kernel::Rejection> bind(kernel::BindArgs const& args) const override {
        if (args.inputs[0]->count() != 1)
            return Err{kernel::Rejection{"the condition has " + std::to_string(args.inputs[0]->count()) +
                                         " elements, expected 1"}};
        Bindings bindings(table_size_, kUnbound);
        for (size_t i = 0; i < symbols_.size(); ++i) bindings[symbols_[i]] = args.params[i];
        auto outputs_from = static_cast<uint32_t>(args.inputs.size());
        BoundBranch then_run(then_, bindings, outputs_from), else_run(else_, bindings, outputs_from);
        for (auto const* run : {then_run.get(), else_run.get()})
            for (size_t i = 0; run && i < args.outputs.size(); ++i) {
                auto const& dims = run->plan().tensors[run->plan().outputs[i]].dims;
                if (!(dims == args.outputs[i]->dims))
                    return Err{kernel::Rejection{"the branches' sizes of output " + std::to_string(i) + " differ"}};
            }
        return std::unique_ptr<runtime::Task>(std::make_unique<IfTask>(std::move(then_run), std::move(else_run)));
    }
};

}  // namespace

struct If::Frozen {
    FrozenBranch then_branch, else_branch;
    std::vector<SymbolId> symbols;
};

If::If(std::shared_ptr<Frozen const> branches, std::vector<DimExpr> symbols)
    : Operator(std::move(symbols)), branches_(std::move(branches)) {}

std::shared_ptr<Operator const> If::make(Branch then_branch, Branch else_branch) {
    auto frozen = std::make_shared<Frozen>(
        Frozen{FrozenBranch(std::move(then_branch)), FrozenBranch(std::move(else_branch)), {}});
    std::set<SymbolId> symbols;
    collect_symbols(frozen->then_branch, symbols);
    collect_symbols(frozen->else_branch, symbols);
    frozen->symbols.assign(symbols.begin(), symbols.end());
    std::vector<DimExpr> params;
    for (auto symbol : symbols) params.push_back(DimExpr::symbol(symbol));
    return std::shared_ptr<Operator const>(new If(std::move(frozen), std::move(params)));
}

std::string If::attributes() const {
    return "branches " + std::to_string(reinterpret_cast<uintptr_t>(branches_.get()));
}

bool If::is_random() const {
    auto any = [](FrozenBranch const& branch) {
        return std::any_of(branch.graph.nodes.begin(), branch.graph.nodes.end(),
                           [](Node const& node) { return node.op->is_random(); });
    };
    return any(branches_->then_branch) || any(branches_->else_branch);
}

void If::write(GraphWriter& writer) const {
    for (auto const* branch : {&branches_->then_branch, &branches_->else_branch}) {
        computation::write(writer, flatten(branch->thaw()));
        writer.write(branch->captures);
    }
}

std::shared_ptr<Operator const> If::read(GraphReader& reader) {
    GraphReader::Nested nested(reader);
    auto branch = [&] {
        auto model = read_model(reader).model;
        auto captures = reader.read<std::vector<uint32_t>>();
        if (captures.size() != model.graph.inputs().size())
            throw InvalidModel("not what was written: a branch with another number of inputs");
        return Branch{std::move(model), std::move(captures)};
    };
    auto then_branch = branch();
    return make(std::move(then_branch), branch());
}

kernel::Candidates If::candidates(kernel::Request const& request) const {
    kernel::Candidates candidates;
    if (request.device != "cpu") {
        candidates.rejections.push_back({"if:cpu:branches:any: runs on cpu, not on " + std::string(request.device)});
        return candidates;
    }
    CompileOptions options;
    options.threads = request.threads, options.precision = request.precision;
    auto compiled = [&](FrozenBranch const& branch) {
        return CompiledBranch{compile(branch.thaw(), options).program, branch.captures};
    };
    auto table_size = std::max(branches_->then_branch.symbols.size(), branches_->else_branch.symbols.size());
    try {
        candidates.kernels.push_back(std::make_unique<IfKernel>(
            compiled(branches_->then_branch), compiled(branches_->else_branch), branches_->symbols, table_size));
    } catch (Unsupported const& error) {
        candidates.rejections.push_back({std::string("if:cpu:branches:any: ") + error.what()});
    }
    return candidates;
}

}  // namespace refactor::computation
