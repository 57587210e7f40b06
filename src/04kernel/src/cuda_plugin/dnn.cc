#include "cuda_plugin/dnn_handles.h"
#include "cuda_plugin/dnn_plans.h"
#include "cuda_plugin/streams.h"
#include "cuda_plugin/tables.h"
#include "cuda_plugin/turns.h"
#include "mem_manager/device_plugin.h"

#include <map>
#include <memory>
#include <new>

namespace refactor::cuda_plugin {

namespace {

/// What has been asked for before: plans, as long as somebody has them, and what the library does not support. It
/// compiles code for some graphs, which takes seconds, and networks repeat their layers.
class KnownPlans {
    struct Known {
        std::weak_ptr<DnnPlan> plan;
        std::shared_ptr<DnnFailure> failure;
    };
    std::mutex mutex_;
    std::map<std::string, Known> known_;
    Turns turns_;

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
        Turns::Turn turn(turns_, key);
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

/// Plans are made for so many multiprocessors, and compiled for what the driver takes.
std::string identity_of(Gpu const& gpu) {
    int processors = 0, driver = 0;
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, gpu.ordinal);
    cudaDriverGetVersion(&driver);
    return gpu.name + ", " + std::to_string(processors) + " multiprocessors, driver " + std::to_string(driver);
}

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
            target.architecture = gpu.architecture, target.device = identity_of(gpu);
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
        target.architecture = "described", target.device = properties;
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
    // Before, masks of minus infinity gave NaN, and 9.10.0 and 9.10.1 wrong results. Source: NVIDIA/cudnn-frontend,
    // sdpa_support_surface.h.
    constexpr size_t kFirstVersion = 91002;
    auto const& dnn = DnnLibrary::get();
    if (dnn.missing.empty() && dnn.version() < kFirstVersion) {
        Complaint{text, text_bytes}.write("attention needs cuDNN 9.10.2 or newer, this is version %zu", dnn.version());
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
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
        std::lock_guard lock(*known.executing);
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
