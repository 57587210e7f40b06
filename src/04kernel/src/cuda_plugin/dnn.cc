#include "cuda_plugin/dnn_graph.h"
#include "cuda_plugin/dnn_handles.h"
#include "cuda_plugin/streams.h"
#include "cuda_plugin/tables.h"
#include "mem_manager/device_plugin.h"

#include <algorithm>
#include <map>
#include <memory>
#include <new>

namespace refactor::cuda_plugin {

namespace {

/// Plans that want more scratch memory are passed over.
constexpr int64_t kMostWorkspace = int64_t(512) << 20;
/// Notes of an engine that are read; cuDNN 9.28 has ten.
constexpr int64_t kMostNotes = 32;

/// A plan as it is run.
struct DnnPlan {
    Descriptor plan;
    std::vector<int64_t> operands;
    std::vector<uint32_t> numbers;
    size_t workspace_bytes;
};

/// Where plans are to run: a device that is there, or one that is described.
struct Target {
    cudnnHandle_t handle = nullptr;
    Descriptor const* properties = nullptr;
};

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

/// The `rank`-th plan that can be finished.
DnnPlan plan_of(DnnGraph graph, int32_t rank, Target const& target) {
    auto const& dnn = DnnLibrary::get();
    Descriptor operations(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    operations.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, graph.operations);
    if (target.handle) operations.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
    operations.finished();
    std::string why = "no engine for this graph";
    auto failed = CUDNN_STATUS_NOT_SUPPORTED;
    for (auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
        for (auto const& config : configs_of(operations, mode, target)) {
            if (!is_allowed(config, graph.forbidden)) {
                why = "every engine lowers the precision";
                continue;
            }
            Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
            plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
            if (target.handle) plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
            if (target.properties) plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
            if (auto status = dnn.finalize(plan.native()); status != CUDNN_STATUS_SUCCESS) {
                why = std::string("no plan can be finished: ") + dnn.error_text(status);
                if (status >= CUDNN_STATUS_INTERNAL_ERROR) failed = status;
                continue;
            }
            int64_t bytes = 0, count = 0;
            check(dnn.get_attribute(plan.native(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                    &count, &bytes),
                  "cudnnBackendGetAttribute");
            if (bytes > kMostWorkspace || rank-- > 0) continue;
            return {std::move(plan), std::move(graph.operands), std::move(graph.numbers), static_cast<size_t>(bytes)};
        }
    throw DnnFailure{failed, "cuDNN: " + why};
}

/// What has been asked for before: plans, as long as somebody has them, and what the library does not support. It
/// compiles code for some graphs, which takes seconds, and networks repeat their layers.
class KnownPlans {
    struct Known {
        std::weak_ptr<DnnPlan> plan;
        std::shared_ptr<DnnFailure> failure;
    };
    std::mutex mutex_;
    std::map<std::string, Known> known_;

    void keep(std::string const& key, Known known) {
        std::lock_guard lock(mutex_);
        known_[key] = std::move(known);
    }

public:
    static KnownPlans& get() {
        static auto* plans = new KnownPlans;
        return *plans;
    }
    /// Null: not known. Throws `DnnFailure`.
    std::shared_ptr<DnnPlan> find(std::string const& key) {
        std::lock_guard lock(mutex_);
        auto found = known_.find(key);
        if (found == known_.end()) return nullptr;
        if (found->second.failure) throw DnnFailure(*found->second.failure);
        return found->second.plan.lock();
    }
    template <class F>
    std::shared_ptr<DnnPlan> make(std::string const& key, F&& plan) {
        if (auto known = find(key)) return known;
        try {
            auto made = std::make_shared<DnnPlan>(plan());
            keep(key, {made, nullptr});
            return made;
        } catch (DnnFailure const& failure) {
            if (failure.status == CUDNN_STATUS_NOT_SUPPORTED) keep(key, {{}, std::make_shared<DnnFailure>(failure)});
            throw;
        }
    }
};

/// Of the bytes of what is asked for.
template <class T>
std::string key_of(Gpu const& gpu, T const& asked, int32_t rank) {
    return std::to_string(gpu.ordinal) + ' ' + std::to_string(rank) + ' ' +
           std::string(reinterpret_cast<char const*>(&asked), sizeof asked);
}

using SharedPlan = std::shared_ptr<DnnPlan>;  ///< what the functions below hand out and take, on the heap

/// Runs `body` and reports what it throws.
template <class F>
int32_t guarded(char* text, size_t text_bytes, F&& body) {
    Complaint complaint{text, text_bytes};
    auto const& dnn = DnnLibrary::get();
    if (!dnn.missing.empty()) {
        complaint.write("%s", dnn.missing.c_str());
        return CUDNN_STATUS_NOT_INITIALIZED;
    }
    try {
        body();
        return 0;
    } catch (DnnFailure const& failure) {
        complaint.write("%s", failure.text.c_str());
        return failure.status;
    } catch (std::bad_alloc const&) {
        complaint.write("out of host memory");
        return RG_OUT_OF_MEMORY;
    }
}

template <class T>
int32_t create(void* device, T const& asked, int32_t rank, void** plan, size_t* workspace_bytes, char* text,
               size_t text_bytes) {
    return guarded(text, text_bytes, [&] {
        auto& gpu = *static_cast<Gpu*>(device);
        CurrentGpu current(gpu);
        auto made = KnownPlans::get().make(key_of(gpu, asked, rank), [&] {
            Handle handle(gpu);
            Target target;
            target.handle = handle.native();
            return plan_of(graph_of(asked), rank, target);
        });
        *workspace_bytes = made->workspace_bytes;
        *plan = new SharedPlan(std::move(made));
    });
}

template <class T>
int32_t check_plan(char const* properties, T const& asked, char* text, size_t text_bytes) {
    return guarded(text, text_bytes, [&] {
        Descriptor described(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
        described.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                      static_cast<int64_t>(std::char_traits<char>::length(properties)) + 1, properties);
        described.finished();
        Target target;
        target.properties = &described;
        plan_of(graph_of(asked), 0, target);
    });
}

int32_t version(char* text, size_t text_bytes) {
    return guarded(text, text_bytes, [&] {
        auto number = DnnLibrary::get().version();
        Complaint{text, text_bytes}.write("cuDNN %zu.%zu.%zu", number / 10000, number % 10000 / 100, number % 100);
    });
}

int32_t convolution_create(void* device, RefactorConvolution const* convolution, int32_t rank, void** plan,
                           size_t* workspace_bytes, char* text, size_t text_bytes) {
    return create(device, *convolution, rank, plan, workspace_bytes, text, text_bytes);
}

int32_t attention_create(void* device, RefactorAttention const* attention, int32_t rank, void** plan,
                         size_t* workspace_bytes, char* text, size_t text_bytes) {
    return create(device, *attention, rank, plan, workspace_bytes, text, text_bytes);
}

void destroy(void* plan) { delete static_cast<SharedPlan*>(plan); }

int32_t run(void* plan, void* stream, void const* const* operands, void* y, void* workspace, char* text,
            size_t text_bytes) {
    return guarded(text, text_bytes, [&] {
        auto const& dnn = DnnLibrary::get();
        auto& known = **static_cast<SharedPlan*>(plan);
        auto& gpu = gpu_of_stream(stream);
        CurrentGpu current(gpu);
        std::vector<int64_t> numbers{kOutputTensor};
        std::vector<void*> addresses{y};
        for (auto number : known.operands) {
            numbers.push_back(number);
            addresses.push_back(const_cast<void*>(operands[number]));
        }
        for (size_t i = 0; i < known.numbers.size(); ++i) {
            numbers.push_back(kFirstNumber + static_cast<int64_t>(i));
            addresses.push_back(&known.numbers[i]);
        }
        Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, numbers)
            .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(addresses.size()),
                 addresses.data())
            .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace)
            .finished();
        Handle handle(gpu);
        check(dnn.set_stream(handle.native(), native(stream)), "cudnnSetStream");
        check(dnn.execute(handle.native(), known.plan.native(), pack.native()), "cudnnBackendExecute");
    });
}

int32_t convolution_check(char const* properties, RefactorConvolution const* convolution, char* text,
                          size_t text_bytes) {
    return check_plan(properties, *convolution, text, text_bytes);
}

int32_t attention_check(char const* properties, RefactorAttention const* attention, char* text, size_t text_bytes) {
    return check_plan(properties, *attention, text, text_bytes);
}

}  // namespace

RefactorDeviceDnn const& dnn_table() {
    static constexpr RefactorDeviceDnn kTable{sizeof(RefactorDeviceDnn), version,        convolution_create,
                                              attention_create,          destroy,        run,
                                              convolution_check,         attention_check};
    return kTable;
}

}  // namespace refactor::cuda_plugin
