#pragma once
#include "cuda/launch.h"

namespace refactor::kernel::cuda {

/// What a kernel of a GPU is bound to: launches one after the other, and what its task answers.
struct Launches {
    std::vector<Launch> list;  ///< those without blocks are left out
    size_t workspace = 0;
    uint64_t in_place = 0;
    double operations = 0;
    /// Input 0 is copied to output 0 before the launches, unless they are the same memory.
    bool copies = false;
    /// As `Task::is_repeatable_in_place`.
    bool repeatable = false;
};

Result<std::unique_ptr<runtime::Task>, Rejection> make_launch_task(Library const& library, Launches launches,
                                                                   BindArgs const& args);

/// A kernel whose launches are a free function of its info. `Code` makes and keeps its functions.
template <class Info, class Code>
class LaunchKernel final : public Kernel {
public:
    using Bind = Result<Launches, Rejection> (*)(Info const&, BindArgs const&, Code const&);

    /// `reference`: the host's kernel, which says whether shapes fit; null if `bind` does. `code`: the arguments of
    /// `Code`.
    template <class... Arguments>
    LaunchKernel(Info info, std::string id, std::unique_ptr<Kernel> reference, Bind function, Arguments const&... code)
        : info_(std::move(info)),
          id_(std::move(id)),
          reference_(std::move(reference)),
          bind_(function),
          code_(code...) {}
    std::string id() const override { return id_; }
    Result<std::unique_ptr<runtime::Task>, Rejection> bind(BindArgs const& args) const override {
        if (reference_)
            if (auto checked = reference_->bind(args); !checked) return Err{checked.error()};
        auto launches = bind_(info_, args, code_);
        if (!launches) return Err{launches.error()};
        return make_launch_task(code_.library(), std::move(*launches), args);
    }

private:
    Info info_;
    std::string id_;
    std::unique_ptr<Kernel> reference_;
    Bind bind_;
    Code code_;
};

/// The kernel `op:nvidia:nvrtc:dtype` for what the host's `reference` accepts: operators are defined for the same types
/// and shapes on all devices. `checks`: whether the reference checks the sizes too.
template <class Code, class Info, class Reference, class... Arguments>
Result<std::unique_ptr<Kernel>, Rejection> make_launch_kernel(Info const& info, Request const& request, char const* op,
                                                              DataType dtype, Reference reference, bool checks,
                                                              typename LaunchKernel<Info, Code>::Bind bind,
                                                              Arguments const&... code) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    auto on_host = host_request(request);
    if (!on_host) return Err{on_host.error()};
    auto accepted = reference(info, *on_host);
    if (!accepted) return Err{accepted.error()};
    if (!checks) *accepted = nullptr;
    return std::unique_ptr<Kernel>(std::make_unique<LaunchKernel<Info, Code>>(
        info, id_of(op, "nvrtc", dtype), std::move(accepted).value(), bind, *library, code...));
}

}  // namespace refactor::kernel::cuda
