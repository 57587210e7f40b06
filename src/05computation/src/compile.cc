#include "computation/compile.h"

#include "common/error.h"
#include "common/log.h"
#include "common/thread_pool.h"
#include "cut_by_device.h"
#include "kernel/device_kernels.h"
#include "kernel/ops/movement.h"
#include "lowering.h"
#include "mem_manager/device.h"
#include "pass.h"

#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <unordered_set>

namespace refactor::computation {

namespace {

#ifdef NDEBUG
constexpr bool kAlwaysVerify = false;
#else
constexpr bool kAlwaysVerify = true;
#endif

void check_weights(CompileOptions const& options) {
    using enum DataType;
    for (auto known : {Undefined, F32, F16, BF16, I8, I4})
        if (options.weights == known) return;
    bool f8 = options.weights == F8E4M3FN || options.weights == F8E5M2;
    if (f8 && options.device != "cpu") return;
    throw InvalidInput("weights: cannot be stored as " + std::string(name_of(options.weights)) + " on " +
                       options.device +
                       ", expected one of: default, f32, f16, bf16, int8, int4, and on a GPU f8e4m3fn, f8e5m2");
}

/// Refuses products of f8 or bytes where there are none.
void check_precision(CompileOptions const& options, mem_manager::Device* place) {
    if (options.round_products && options.device != "cpu")
        throw Unsupported("precision int8: rounds products on a CPU alone, the target is " + options.device);
    if (options.precision != kernel::Precision::F8) return;
    constexpr int kNeeded = 89;
    std::string const wanted = "precision fp8: needs an NVIDIA GPU of compute capability 8.9 or more, ";
    if (!place) throw Unsupported(wanted + "the target is " + options.device);
    auto const* kernels = static_cast<RefactorDeviceKernels const*>(place->extension(RG_KERNELS_EXTENSION));
    if (!kernels || kernels->bytes < sizeof(RefactorDeviceKernels))
        throw Unsupported(wanted + "the plugin of " + place->name() + " has no kernels of this version");
    auto capability = kernels->capability(place->handle());
    if (capability < kNeeded)
        throw Unsupported(wanted + place->name() + " has " + std::to_string(capability / 10) + '.' +
                          std::to_string(capability % 10));
}

void mark_kept(Model& model, std::vector<std::string> const& names) {
    std::unordered_set<std::string> wanted(names.begin(), names.end());
    for (uint32_t id = 0; id < model.graph.edge_id_bound() && !wanted.empty(); ++id) {
        auto* edge = model.graph.edge(id);
        if (edge->alive() && wanted.erase(edge->value.name)) edge->value.keep = true;
    }
    if (wanted.empty()) return;
    std::string missing;
    for (auto const& name : names)
        if (wanted.contains(name)) missing += (missing.empty() ? "\"" : ", \"") + name + '"';
    throw InvalidInput("keep: the model has no tensor named " + missing);
}

TensorsBehind tensors_behind(Model& model, std::vector<std::string> const& names) {
    // Fusion joins a few nodes: what a node became is near.
    constexpr size_t kMost = 32;
    TensorsBehind result;
    for (auto const& name : names) {
        std::vector<EdgePtr> edges;
        for (auto* node : model.graph.topological())
            if (node->value.name == name) edges.insert(edges.end(), node->outputs().begin(), node->outputs().end());
        for (size_t i = 0; i < edges.size() && edges.size() < kMost; ++i)
            for (auto const& use : edges[i]->consumers())
                for (auto* edge : use.node->outputs())
                    if (std::find(edges.begin(), edges.end(), edge) == edges.end()) edges.push_back(edge);
        auto& entry = result.emplace_back(name, std::vector<std::string>{});
        for (auto* edge : edges) entry.second.push_back(edge->value.name);
    }
    return result;
}

void check_after(Pass const& pass, Model& model) {
    auto problems = verify(model);
    if (problems.empty()) return;
    std::string text = std::string("pass ") + pass.name + " broke the graph:";
    for (auto const& problem : problems) text += "\n  " + problem;
    throw InternalError(text);
}

std::vector<PassReport> run_passes(Model& model, std::vector<Pass> const& passes, PassContext context) {
    using Clock = std::chrono::steady_clock;
    std::vector<PassReport> reports;
    for (auto const& pass : passes) {
        auto& report = reports.emplace_back();
        report.name = pass.name, context.notes = &report.notes;
        auto start = Clock::now();
        try {
            report.changes = pass.run(model, context);
        } catch (Error& error) {
            error.add_context(std::string("pass ") + pass.name);
            throw;
        }
        report.microseconds = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
        if (kAlwaysVerify || context.options.verify) check_after(pass, model);
        if (report.changes && log_enabled(LogLevel::Debug)) {
            report.graph = to_string(model.graph, model.symbols);
            log(LogLevel::Debug, "after " + report.name + ":\n" + report.graph);
        }
    }
    return reports;
}

EdgePtr memory_of(EdgePtr edge) {
    while (edge->producer() && edge->producer()->value.op->is_alias()) edge = edge->producer()->input(0);
    return edge;
}

/// Gives every graph output memory of its own: copies where it is an input, a constant, or another output's memory.
void separate_outputs(Model& model) {
    std::unordered_set<EdgePtr> taken;
    auto& graph = model.graph;
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
        auto* edge = graph.outputs()[i];
        auto* memory = memory_of(edge);
        if (memory->producer() && taken.insert(memory).second) continue;
        auto copy = kernel::CopyInfo{};
        auto* node = graph.insert({"copy of " + edge->value.name, make_operator(copy)}, {edge});
        node->output()->value = edge->value;
        node->output()->value.constant = nullptr;
        graph.set_output(i, node->output());
        taken.insert(node->output());
    }
}

}  // namespace

Compiled compile(Model model, CompileOptions const& options) {
    // First of all: without the device everything else is in vain.
    auto* place = options.device == "cpu" ? nullptr : &mem_manager::find_device(options.device, 0);
    check_precision(options, place);
    check_weights(options);
    auto threads = options.threads > 0 ? options.threads : default_thread_count();
    auto keep_f32 = tensors_behind(model, options.keep_f32);
    PassContext context{options, cpu_features().isa, threads, &keep_f32};
    auto passes = select_passes(options.passes);
    mark_kept(model, options.keep);
    Compiled compiled;
    compiled.passes = run_passes(model, passes, context);
    separate_outputs(model);
    std::vector<Piece> pieces;
    if (place && options.host_too) {
        auto& report = compiled.passes.emplace_back();
        report.name = "cut_by_device";
        pieces = cut_by_device(model, context, *place, report, compiled.values);
    }
    for (auto& piece : pieces) {
        separate_outputs(piece.model);
        compiled.parts.push_back({lower(piece.model, context, piece.on_host ? nullptr : place), std::move(piece.inputs),
                                  std::move(piece.outputs)});
    }
    if (!pieces.empty()) return compiled;
    compiled.program = lower(model, context, place);
    return compiled;
}

}  // namespace refactor::computation
