#include "lowering.h"

#include "ask_kernels.h"
#include "common/error.h"
#include "kernel/ops/movement.h"

#include <algorithm>
#include <unordered_map>

namespace refactor::computation {

namespace {

class Lowering {
    Model& model_;
    PassContext const& context_;
    kernel::ProgramParts parts_;
    std::unordered_map<EdgePtr, uint32_t> numbers_;
    std::vector<std::string> problems_;
    mem_manager::Device* place_;  ///< null: the host
    std::string device_;

    uint32_t number_of(EdgePtr edge) {
        if (!edge) return kernel::kNoEdge;
        auto [it, fresh] = numbers_.try_emplace(edge, static_cast<uint32_t>(parts_.edges.size()));
        if (fresh) {
            auto const& value = edge->value;
            parts_.edges.push_back({value.name, value.dtype, value.layout, value.shape, value.constant});
        }
        return it->second;
    }

    std::string describe(NodePtr node) const {
        auto text = std::string(node->value.op->type()) + " node \"" + node->value.name + "\" (";
        for (size_t i = 0; i < node->inputs().size(); ++i) {
            auto* edge = node->input(i);
            text += i ? ", " : "";
            text +=
                edge ? std::string(name_of(edge->value.dtype)) + refactor::to_string(edge->value.shape, model_.symbols)
                     : "-";
        }
        return text + ") on " + device_;
    }

    bool has_fixed_sizes() const {
        return std::all_of(parts_.inputs.begin(), parts_.inputs.end(), [&](uint32_t edge) {
            auto const& shape = parts_.edges[edge].shape;
            return std::all_of(shape.begin(), shape.end(), [](DimExpr const& size) { return size.constant(); });
        });
    }

    static kernel::PartRule parts_of(Operator const& op) {
        if (auto const* concat = info_of<kernel::ConcatInfo>(op)) return {kernel::PartRule::Join, concat->axis};
        if (auto const* split = info_of<kernel::SplitInfo>(op)) return {kernel::PartRule::Cut, split->axis};
        auto const* slice = info_of<kernel::SliceInfo>(op);
        bool run = slice && std::all_of(slice->steps.begin(), slice->steps.end(), [](int64_t s) { return s == 1; });
        return {run ? kernel::PartRule::Slice : kernel::PartRule::None, 0};
    }

    void add(NodePtr node) {
        auto const& op = *node->value.op;
        kernel::ProgramNode lowered{node->value.name, std::string(op.type()), {}, {}, {}, {}, {}};
        for (auto* edge : node->inputs()) lowered.inputs.push_back(number_of(edge));
        for (auto* edge : node->outputs()) lowered.outputs.push_back(number_of(edge));
        lowered.params.assign(op.params().begin(), op.params().end());
        lowered.origin = node->value.op;
        lowered.parts = parts_of(op);
        lowered.is_pure = !op.is_random() && std::none_of(node->outputs().begin(), node->outputs().end(),
                                                          [](EdgePtr edge) { return edge->value.keep; });
        if (!op.is_alias()) {
            auto candidates = ask_kernels(node, context_, device_, place_);
            if (candidates.kernels.empty()) {
                auto problem = describe(node);
                for (auto const& rejection : candidates.rejections) problem += "\n    " + rejection.reason;
                problems_.push_back(std::move(problem));
            }
            lowered.kernels = std::move(candidates.kernels);
            if (context_.options.tuning) lowered.attributes = op.attributes();
        }
        parts_.nodes.push_back(std::move(lowered));
    }

public:
    Lowering(Model& model, PassContext const& context, mem_manager::Device* place)
        : model_(model), context_(context), place_(place), device_(place ? context.options.device : "cpu") {}

    kernel::ProgramParts run() {
        for (auto* edge : model_.graph.inputs()) parts_.inputs.push_back(number_of(edge));
        for (auto* node : model_.graph.topological()) add(node);
        if (!problems_.empty()) {
            auto text = std::to_string(problems_.size()) + " node(s) that no kernel computes:";
            for (auto const& problem : problems_) text += "\n  " + problem;
            throw Unsupported(text);
        }
        for (size_t i = 0; i < model_.graph.outputs().size(); ++i) {
            parts_.outputs.push_back(number_of(model_.graph.outputs()[i]));
            if (i < model_.output_names.size()) parts_.edges[parts_.outputs.back()].name = model_.output_names[i];
        }
        parts_.symbols = std::move(model_.symbols);
        parts_.conditions = std::move(model_.conditions);
        parts_.threads = context_.threads;
        parts_.isa = context_.isa, parts_.precision = context_.options.precision;
        parts_.max_tensor_bytes = context_.options.max_tensor_bytes;
        parts_.device = device_;
        parts_.tuning = context_.options.tuning;
        parts_.measure = parts_.tuning && context_.options.measure && has_fixed_sizes();
        return std::move(parts_);
    }
};

/// A program whose inputs have fixed sizes has one plan: made here, weights are packed before the first run.
void plan_fixed_sizes(kernel::Program& program) {
    std::vector<Dims> dims;
    for (auto const& port : program.inputs()) {
        if (std::any_of(port.dims.begin(), port.dims.end(), [](int64_t size) { return size < 0; })) return;
        dims.emplace_back(port.dims.begin(), port.dims.end());
    }
    program.plan(dims);
}

}  // namespace

std::shared_ptr<kernel::Program> lower(Model& model, PassContext const& context, mem_manager::Device* place,
                                       std::vector<kernel::PackCache::Entry> packs) {
    auto program = std::make_shared<kernel::Program>(Lowering(model, context, place).run());
    for (auto& entry : packs) program->packs().add(std::move(entry));
    plan_fixed_sizes(*program);
    return program;
}

}  // namespace refactor::computation
