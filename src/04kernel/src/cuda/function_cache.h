#pragma once
#include "cuda/library.h"

#include <map>
#include <mutex>

namespace refactor::kernel::cuda {

/// The compiled functions of one kernel, by their names and by the kind of what they compute (types, ranks, modes: all
/// that the source depends on). A kind that is known writes no source and compiles nothing. What is kept goes with the
/// kernel; the functions stay valid (`RefactorDeviceKernels::load`). Thread-safe.
class FunctionCache {
    Library library_;
    mutable std::mutex mutex_;
    mutable std::map<std::string, void*> functions_;

public:
    explicit FunctionCache(Library const& library) : library_(library) {}
    Library const& library() const { return library_; }
    /// `write()` gives the source of `name` for a kind that is asked for the first time.
    template <class F>
    void* get(std::string const& name, std::string const& kind, F const& write) const {
        std::lock_guard lock(mutex_);
        auto& function = functions_[name + '/' + kind];
        if (!function) function = library_.load(write(), name);
        return function;
    }
};

}  // namespace refactor::kernel::cuda
