#pragma once
#include "kernel/kernel.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace refactor::kernel {

using MaybeKernel = Result<std::unique_ptr<Kernel>, Rejection>;
using MaybeTask = Result<std::unique_ptr<runtime::Task>, Rejection>;

/// A CPU kernel that keeps nothing but its attributes: `Bound::make(info, args)` gives the task, `Bound::cost(info,
/// args)` the estimate in ns.
template <class Info, class Bound>
class InfoKernel final : public Kernel {
    std::string id_;
    Info info_;

public:
    InfoKernel(std::string id, Info info) : id_(std::move(id)), info_(std::move(info)) {}
    std::string id() const override { return id_; }
    Result<double, Rejection> estimate(BindArgs const& args) const override { return Bound::cost(info_, args); }
    MaybeTask bind(BindArgs const& args) const override { return Bound::make(info_, args); }
};

Err<Rejection> reject(std::string reason);

/// Nothing if the request is for a CPU and all operands are in the plain layout, else what is wrong.
std::string why_not_plain_cpu(Request const& request);

/// Nothing if a kernel for `isa` may run for the request, else why not. Others than the best level stay candidates,
/// except Avx2Vnni, which levels above it do not contain.
std::string why_not_isa(Request const& request, Isa isa);

/// Which output from `first` on is not of this type, or empty.
std::string why_not_outputs_of(Request const& request, DataType type, size_t first = 0);

/// "op:cpu:algorithm:dtype", with ":isa" behind it if that is not scalar.
std::string id_of(std::string_view op, std::string_view algorithm, DataType dtype, Isa isa = Isa::Scalar);

/// Shortest text that tells one float from every other.
std::string exact_text(float x);

/// Sizes before, of, and after the axes [axis, axis + axes) of row-major dims.
struct AxisSplit {
    int64_t outer = 1, size = 1, inner = 1;
    AxisSplit(std::span<int64_t const> dims, int64_t axis, int64_t axes = 1) {
        for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); ++i)
            (i < axis ? outer : i < axis + axes ? size : inner) *= dims[i];
    }
};

/// Number of equal chunks to cut `count` items of `ns` each into, so that a chunk is worth handing to another thread
/// (kGrainNs, about 10 fork-joins of 0.3 µs) and every thread has up to 4 for balance.
inline int64_t chunks_of(int64_t count, double ns, int threads) {
    constexpr double kGrainNs = 3000;
    if (threads <= 1 || count <= 1) return 1;
    auto by_work = static_cast<int64_t>(static_cast<double>(count) * ns / kGrainNs);
    return std::max<int64_t>(1, std::min({count, by_work, int64_t{4} * threads}));
}

}  // namespace refactor::kernel
