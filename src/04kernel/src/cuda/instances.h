#pragma once
#include "cuda/expression_source.h"
#include "cuda/function_cache.h"
#include "cuda/launch_kernel.h"
#include "cuda/rows_source.h"

namespace refactor::kernel::cuda {

inline constexpr Address kNowhere{Address::kNone};
constexpr Address scratch(size_t offset = 0) { return {Address::kWorkspace, offset}; }
/// Inputs, then outputs.
constexpr Address operand(int number, size_t offset = 0) { return {number, offset}; }

/// Instances of one family of templates.
class Instances {
    FunctionCache functions_;
    char const* family_;

public:
    Instances(Library const& library, char const* family) : functions_(library), family_(family) {}
    Library const& library() const { return functions_.library(); }
    /// A launch of the kernel `name`_kernel whose body is `call`, "rg_reduce_rows<...>". Blocks that make a cluster
    /// (its number of blocks, which divides `blocks`) see each other's shared memory; the family defines RG_CLUSTER.
    Launch launch(std::string const& name, std::string const& call, int64_t blocks, std::vector<Address> addresses,
                  std::vector<uint64_t> numbers, int cluster = 1) const;
};

/// The kernel `op:nvidia:nvrtc:dtype`; the host's reference checks the sizes.
template <class Info, class Reference>
Result<std::unique_ptr<Kernel>, Rejection> make_instances(Info const& info, Request const& request, char const* op,
                                                          DataType dtype, char const* family, Reference reference,
                                                          typename LaunchKernel<Info, Instances>::Bind bind) {
    return make_launch_kernel<Instances>(info, request, op, dtype, reference, true, bind, family);
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
