#pragma once
#include "cuda/expression_source.h"
#include "cuda/launch.h"
#include "cuda/library.h"
#include "cuda/rows_source.h"
#include "kernel/kernel.h"

#include <map>
#include <mutex>

namespace refactor::kernel::cuda {

inline constexpr Address kNowhere{Address::kNone};
constexpr Address scratch(size_t offset = 0) { return {Address::kWorkspace, offset}; }
/// Inputs, then outputs.
constexpr Address operand(int number, size_t offset = 0) { return {number, offset}; }

/// What a task does: launches one after the other, and what it answers.
struct InstanceLaunches {
    std::vector<Launch> list;
    size_t workspace = 0;
    uint64_t in_place = 0;
    double operations = 0;
};

/// Instances of one family of templates, compiled when they are first asked for. Thread-safe.
class Instances {
    Library library_;
    char const* family_;
    mutable std::mutex mutex_;
    mutable std::map<std::string, void*> functions_;

public:
    Instances(Library const& library, char const* family) : library_(library), family_(family) {}
    Library const& library() const { return library_; }
    /// A launch of the kernel `name`_kernel whose body is `call`, "rg_reduce_rows<...>".
    Launch launch(std::string const& name, std::string const& call, int64_t blocks, std::vector<Address> addresses,
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
        auto& answer = launches.value();
        std::erase_if(answer.list, [](Launch const& launch) { return launch.blocks == 0; });
        return std::unique_ptr<runtime::Task>(std::make_unique<LaunchTask>(
            instances_.library(), std::move(answer.list), answer.workspace, answer.in_place, answer.operations));
    }
};

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
