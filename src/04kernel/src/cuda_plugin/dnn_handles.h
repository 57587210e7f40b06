#pragma once
#include "cuda_plugin/dnn_library.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace refactor::cuda_plugin {

/// Handles that no call is using, by device: a handle works on one stream at a time.
class Handles {
    std::mutex mutex_;
    std::vector<std::pair<Gpu*, cudnnHandle_t>> idle_;

public:
    static Handles& get() {
        static auto* handles = new Handles;
        return *handles;
    }
    /// One that is new is made by one thread at a time, as NVIDIA recommends.
    cudnnHandle_t take(Gpu& gpu) {
        std::lock_guard lock(mutex_);
        auto found = std::find_if(idle_.rbegin(), idle_.rend(), [&](auto const& it) { return it.first == &gpu; });
        if (found != idle_.rend()) {
            auto handle = found->second;
            idle_.erase(std::next(found).base());
            return handle;
        }
        Unrecorded aside;
        cudnnHandle_t handle = nullptr;
        check(DnnLibrary::get().create(&handle), "cudnnCreate");
        return handle;
    }
    void give_back(Gpu& gpu, cudnnHandle_t handle) {
        std::lock_guard lock(mutex_);
        idle_.emplace_back(&gpu, handle);
    }
};

class Handle {
    Gpu& gpu_;
    cudnnHandle_t native_;

public:
    explicit Handle(Gpu& gpu) : gpu_(gpu), native_(Handles::get().take(gpu)) {}
    ~Handle() { Handles::get().give_back(gpu_, native_); }
    Handle(Handle const&) = delete;
    Handle& operator=(Handle const&) = delete;
    cudnnHandle_t native() const { return native_; }
};

}  // namespace refactor::cuda_plugin
