#pragma once
#include "cuda/library.h"
#include "cuda/rows_source.h"
#include "kernel/kernel.h"

#include <map>
#include <mutex>

namespace refactor::kernel::cuda {

/// An address that a launch gets: that of an operand (inputs, then outputs), a place in the workspace, or none.
struct Place {
    static constexpr int kWorkspace = -1, kNone = -2;
    int operand = kNone;
    size_t offset = 0;  ///< bytes
};
inline constexpr Place kNowhere{};
constexpr Place scratch(size_t offset = 0) { return {Place::kWorkspace, offset}; }
constexpr Place operand(int number, size_t offset = 0) { return {number, offset}; }

/// One launch of an instance: its argument holds the addresses, then the numbers.
struct InstanceLaunch {
    void* function = nullptr;
    int64_t blocks = 0;  ///< of 256 threads; none: nothing is launched
    std::vector<Place> places;
    std::vector<uint64_t> numbers;
};
/// What a task does: launches one after the other.
struct InstanceLaunches {
    std::vector<InstanceLaunch> list;
    size_t workspace = 0;
    uint64_t in_place = 0;
    double operations = 0;
};
std::unique_ptr<runtime::Task> make_launch_task(Library const& library, InstanceLaunches launches);

/// Instances of one family of templates, compiled when they are first asked for. Thread-safe.
class Instances {
    Library library_;
    char const* family_;
    mutable std::mutex mutex_;
    mutable std::map<std::string, void*> functions_;

public:
    Instances(Library const& library, char const* family) : library_(library), family_(family) {}
    Library const& library() const { return library_; }
    /// A launch of the kernel `name` whose body is `call`, "rg_reduce_rows<...>".
    InstanceLaunch launch(std::string const& name, std::string const& call, int64_t blocks, std::vector<Place> places,
                          std::vector<uint64_t> numbers) const;
};

/// A kernel whose launches are a free function of its info. The host's reference checks the sizes.
template <class Info>
class InstanceKernel final : public Kernel {
public:
    using Bind = Result<InstanceLaunches, Rejection> (*)(Info const&, BindArgs const&, Instances const&);

private:
    Info info_;
    std::string id_;
    Instances instances_;
    std::unique_ptr<Kernel> reference_;
    Bind bind_;

public:
    InstanceKernel(Info info, std::string id, Library const& library, char const* family,
                   std::unique_ptr<Kernel> reference, Bind function)
        : info_(std::move(info)),
          id_(std::move(id)),
          instances_(library, family),
          reference_(std::move(reference)),
          bind_(function) {}
    std::string id() const override { return id_; }
    Result<std::unique_ptr<runtime::Task>, Rejection> bind(BindArgs const& args) const override {
        if (auto checked = reference_->bind(args); !checked) return Err{checked.error()};
        auto launches = bind_(info_, args, instances_);
        if (!launches) return Err{launches.error()};
        return make_launch_task(instances_.library(), std::move(launches).value());
    }
};

/// The request as it would be for the host, or why it cannot be for a GPU.
Result<Request, Rejection> host_request(Request const& request);

/// The kernel `op:nvidia:nvrtc:dtype` for what the host's reference accepts: operators are defined for the same types
/// on all devices. `dtype` is the one that the id names.
template <class Info, class Reference>
Result<std::unique_ptr<Kernel>, Rejection> make_instances(Info const& info, Request const& request, char const* op,
                                                          DataType dtype, char const* family, Reference reference,
                                                          typename InstanceKernel<Info>::Bind bind) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    auto on_host = host_request(request);
    if (!on_host) return Err{on_host.error()};
    auto checks = reference(info, *on_host);
    if (!checks) return Err{checks.error()};
    auto id = std::string(op) + ":nvidia:nvrtc:" + std::string(name_of(dtype));
    return std::unique_ptr<Kernel>(
        std::make_unique<InstanceKernel<Info>>(info, std::move(id), *library, family, std::move(checks).value(), bind));
}

/// Text of template arguments: numbers, bools and names, separated by commas.
template <class... Parts>
std::string template_text(char const* name, Parts const&... parts) {
    auto text = [](auto const& part) -> std::string {
        using Part = std::decay_t<decltype(part)>;
        if constexpr (std::is_same_v<Part, bool>)
            return part ? "true" : "false";
        else if constexpr (std::is_integral_v<Part>)
            return std::to_string(part);
        else
            return part;
    };
    std::string all;
    ((all += (all.empty() ? "" : ", ") + text(parts)), ...);
    return std::string(name) + "<" + all + ">";
}

}  // namespace refactor::kernel::cuda
