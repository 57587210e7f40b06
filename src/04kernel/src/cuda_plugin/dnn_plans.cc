#include "cuda_plugin/dnn_plans.h"

#include "cuda_plugin/code_cache.h"

#include <algorithm>
#include <optional>

namespace refactor::cuda_plugin {

namespace {

/// Plans that want more scratch memory are passed over.
constexpr int64_t kMostWorkspace = int64_t(512) << 20;
/// Notes of an engine that are read; cuDNN 9.28 has ten.
constexpr int64_t kMostNotes = 32;

bool is_allowed(Descriptor const& config, std::vector<cudnnBackendNumericalNote_t> const& forbidden) {
    auto const& dnn = DnnLibrary::get();
    Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    auto native = engine.native();
    int64_t count = 0;
    check(dnn.get_attribute(config.native(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                            &native),
          "cudnnBackendGetAttribute");
    cudnnBackendNumericalNote_t notes[kMostNotes];
    check(dnn.get_attribute(native, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, kMostNotes, &count,
                            notes),
          "cudnnBackendGetAttribute");
    // A library may know, and count, more notes than there is room for.
    auto known = std::min(count, kMostNotes);
    return std::none_of(notes, notes + known, [&](auto note) {
        return std::find(forbidden.begin(), forbidden.end(), note) != forbidden.end();
    });
}

/// Configurations of one heuristic, the best first.
std::vector<Descriptor> configs_of(Descriptor const& graph, cudnnBackendHeurMode_t mode, Target const& target) {
    auto const& dnn = DnnLibrary::get();
    Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (target.properties) heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
    // Without an engine for the graph, a heuristic cannot be finished.
    if (dnn.finalize(heuristic.native()) != CUDNN_STATUS_SUCCESS) return {};
    int64_t count = 0;
    check(dnn.get_attribute(heuristic.native(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                            nullptr),
          "cudnnBackendGetAttribute");
    std::vector<Descriptor> configs;
    std::vector<cudnnBackendDescriptor_t> natives;
    for (int64_t i = 0; i < count; ++i)
        natives.push_back(configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).native());
    check(dnn.get_attribute(heuristic.native(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                            &count, natives.data()),
          "cudnnBackendGetAttribute");
    configs.erase(configs.begin() + count, configs.end());
    return configs;
}

/// A plan that is set to nothing yet.
Descriptor blank_plan(Target const& target) {
    Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (target.handle) plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
    if (target.properties) plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
    return plan;
}

int64_t workspace_of(Descriptor const& plan) {
    int64_t bytes = 0, count = 0;
    check(DnnLibrary::get().get_attribute(plan.native(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                          &count, &bytes),
          "cudnnBackendGetAttribute");
    return bytes;
}

/// A plan on disk, as the text that the library writes and reads. It takes only what it wrote itself for the same
/// device, so that both stand in the name and the source of the file.
class KeptPlan {
    CodeCache file_;

    static std::string folder(Target const& target) {
        auto version = DnnLibrary::get().version();
        return "cudnn" + std::to_string(version) + '-' + target.architecture;
    }
    static std::string source(Target const& target, Descriptor const& operations, DnnGraph const& graph, int32_t rank) {
        auto text = target.device + "\nrank " + std::to_string(rank) + ", workspace " + std::to_string(kMostWorkspace);
        for (auto note : graph.forbidden) text += ", not " + std::to_string(note);
        return text + '\n' + operations.content();
    }

public:
    KeptPlan(Target const& target, Descriptor const& operations, DnnGraph const& graph, int32_t rank)
        : file_(folder(target), source(target, operations, graph, rank)) {}

    std::optional<Descriptor> find(Target const& target) const {
        auto text = file_.find();
        if (text.empty()) return std::nullopt;
        try {
            auto plan = blank_plan(target);
            plan.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<int64_t>(text.size()),
                     text.data());
            return std::move(plan.finished());
        } catch (DnnFailure const&) {
            return std::nullopt;
        }
    }
    /// Not all engines can be written.
    void keep(Descriptor const& plan) const {
        auto get = [&](int64_t room, int64_t& count, char* text) {
            return DnnLibrary::get().get_attribute(plan.native(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                                   CUDNN_TYPE_CHAR, room, &count, text) == CUDNN_STATUS_SUCCESS;
        };
        int64_t count = 0;
        if (!get(0, count, nullptr) || count <= 0) return;
        std::string text(static_cast<size_t>(count), '\0');
        if (get(count, count, text.data())) file_.store(text);
    }
};

Descriptor best_plan(Descriptor const& operations, DnnGraph const& graph, int32_t rank, Target const& target) {
    auto const& dnn = DnnLibrary::get();
    std::string why = "no engine for this graph";
    auto failed = CUDNN_STATUS_NOT_SUPPORTED;
    for (auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
        for (auto const& config : configs_of(operations, mode, target)) {
            if (!is_allowed(config, graph.forbidden)) {
                why = "every engine lowers the precision";
                continue;
            }
            auto plan = blank_plan(target);
            plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
            if (auto status = dnn.finalize(plan.native()); status != CUDNN_STATUS_SUCCESS) {
                why = std::string("no plan can be finished: ") + dnn.error_text(status);
                if (status >= CUDNN_STATUS_INTERNAL_ERROR) failed = status;
                continue;
            }
            if (workspace_of(plan) > kMostWorkspace || rank-- > 0) continue;
            return plan;
        }
    throw DnnFailure{failed, "cuDNN: " + why};
}

}  // namespace

DnnPlan plan_of(DnnGraph graph, int32_t rank, Target const& target) {
    Descriptor operations(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    operations.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, graph.operations);
    if (target.handle) operations.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
    KeptPlan const kept(target, operations, graph, rank);
    auto plan = kept.find(target);
    if (!plan) {
        operations.finished();
        plan = best_plan(operations, graph, rank, target);
        kept.keep(*plan);
    }
    auto bytes = workspace_of(*plan);
    return {std::move(*plan), std::move(graph.operands), std::move(graph.numbers), static_cast<size_t>(bytes)};
}

}  // namespace refactor::cuda_plugin
