#pragma once
#include "cuda/expression_source.h"
#include "cuda/function_cache.h"
#include "cuda/launch_kernel.h"
#include "movement/movement.h"

#include <bit>

/// Kernels whose code is a fixed text after a few declarations ("kind"): types, ranks and modes. Sizes are words of the
/// launch's argument, so that a new shape of the same kind compiles nothing.
namespace refactor::kernel::cuda {

using movement::KernelResult;
using movement::TaskResult;

/// Indices below this fit 32 bits with all sums that kernels make of them.
inline constexpr int64_t kNarrow = int64_t(1) << 31;

/// A launch whose parts are added in order.
struct GeneratedLaunch : Launch {
    /// The operands whose addresses come first.
    void on(std::initializer_list<int> operands) {
        for (auto operand : operands) addresses.push_back({operand});
    }
    /// A number of any kind; floats as the bits of an f64.
    template <class T>
    void add(T value) {
        if constexpr (std::is_floating_point_v<T>)
            numbers.push_back(std::bit_cast<uint64_t>(static_cast<double>(value)));
        else
            numbers.push_back(static_cast<uint64_t>(value));
    }
    /// A size with the constants of its fast division (`rg_axis`).
    void add_axis(int64_t size);
    /// Sizes and steps, as `rg_axis[rank]` and `rg_u64[rank]`; at least one of each.
    void add_axes(Dims const& sizes);
    void add_steps(Dims const& steps);
};

/// The functions of one kernel.
class Code {
    FunctionCache functions_;

public:
    explicit Code(Library const& library) : functions_(library) {}
    Library const& library() const { return functions_.library(); }
    /// `name`, of the prelude, `kind` and `body`; a name has one body.
    void* function(char const* name, std::string const& kind, char const* body) const;
};

/// Who says whether shapes fit: the reference for the host, or `bind` itself (where the reference makes large tables).
enum class Check : uint8_t { ByReference, ByBind };

/// The kernel `op:nvidia:nvrtc:dtype`, for the type of output 0.
template <class Info>
KernelResult generate(Info const& info, char const* op, Request const& request,
                      KernelResult (*reference)(Info const&, Request const&),
                      typename LaunchKernel<Info, Code>::Bind bind, Check check = Check::ByReference) {
    return make_launch_kernel<Code>(info, request, op, request.outputs[0].dtype, reference, check == Check::ByReference,
                                    bind);
}

/// "typedef unsigned Index;" for counts that fit, else 64 bits. `Signed` is the signed type of the same width.
std::string index_kind(bool narrow);
/// "constexpr long long kName = value;"
std::string constant_kind(char const* name, int64_t value);
/// `typedef` of `name` as an unsigned type of 1, 2, 4, 8 or 16 bytes.
std::string word_kind(char const* name, int64_t bytes);
/// `Stored` (in memory) and `Real` (computed in: f32 for halves, else the type itself) with `rg_load` and `rg_store`.
std::string number_kind(DataType type);

/// For results that are blended: `Sum`, f32 for f32 and halves and f64 for all others, and `rg_saturated`, which rounds
/// it to `Stored` (integers towards zero, within their range).
std::string saturation_kind(DataType type);

/// Sizes and steps (in elements) of some operands along common axes, outermost first.
struct AxisList {
    Dims sizes;
    std::vector<Dims> steps;
    /// Drops axes of size 1 and merges neighbours that every operand walks through in one step.
    void merge();
};

/// The widest access of a thread in bytes.
inline constexpr int64_t kWidestBytes = 16;
/// Elements that a thread of a kernel over single words takes at a time, so that enough bytes are under way: 16 bytes,
/// at most four loads.
constexpr int64_t items_of(int64_t word_bytes) { return std::clamp<int64_t>(kWidestBytes / word_bytes, 1, 4); }

/// Functions of movement, behind `kPrelude`.
extern char const* const kMovementPrelude;

}  // namespace refactor::kernel::cuda
