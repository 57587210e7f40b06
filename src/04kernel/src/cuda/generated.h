#pragma once
#include "cuda/expression_source.h"
#include "cuda/launch.h"
#include "movement/movement.h"

#include <bit>
#include <map>
#include <mutex>
#include <tuple>

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

/// What a generated kernel is bound to: launches one after the other.
struct Launches {
    std::vector<Launch> list;
    size_t workspace = 0;
    uint64_t in_place = 0;
    /// Input 0 is copied to output 0 before the launches, unless they are the same memory.
    bool copies = false;
};

/// The functions of one kernel, compiled when they are first asked for. Thread-safe.
class Code {
    Library library_;
    mutable std::mutex mutex_;
    mutable std::map<std::tuple<std::string_view, char const*, std::string>, void*> functions_;

public:
    explicit Code(Library const& library) : library_(library) {}
    Library const& library() const { return library_; }
    /// `name`, of the prelude, `kind` and `body`; names and bodies are constants of the program.
    void* function(char const* name, std::string const& kind, char const* body) const;
};

TaskResult make_launch_task(Library const& library, Launches launches, BindArgs const& args);

/// Who says whether shapes fit: the reference for the host, or `bind` itself (where the reference makes large tables).
enum class Check : uint8_t { ByReference, ByBind };

/// A kernel whose launches are a free function of its info.
template <class Info>
class GeneratedKernel final : public Kernel {
public:
    using Bind = Result<Launches, Rejection> (*)(Info const&, BindArgs const&, Code const&);
    GeneratedKernel(Info info, std::string id, Library const& library, std::unique_ptr<Kernel> reference, Bind function)
        : info_(std::move(info)),
          id_(std::move(id)),
          code_(library),
          reference_(std::move(reference)),
          bind_(function) {}
    std::string id() const override { return id_; }
    TaskResult bind(BindArgs const& args) const override {
        if (reference_)
            if (auto checked = reference_->bind(args); !checked) return Err{checked.error()};
        auto launches = bind_(info_, args, code_);
        if (!launches) return Err{launches.error()};
        return make_launch_task(code_.library(), std::move(*launches), args);
    }

private:
    Info info_;
    std::string id_;
    Code code_;
    std::unique_ptr<Kernel> reference_;
    Bind bind_;
};

/// The kernel `op:nvidia:nvrtc:dtype` for what `reference` accepts: operators are defined for the same types and shapes
/// on all devices.
template <class Info>
KernelResult generate(Info const& info, char const* op, Request const& request,
                      KernelResult (*reference)(Info const&, Request const&), typename GeneratedKernel<Info>::Bind bind,
                      Check check = Check::ByReference) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    auto on_host = host_request(request);
    if (!on_host) return Err{on_host.error()};
    auto checks = reference(info, *on_host);
    if (!checks) return Err{checks.error()};
    if (check == Check::ByBind) *checks = nullptr;
    auto id = std::string(op) + ":nvidia:nvrtc:" + std::string(name_of(request.outputs[0].dtype));
    return KernelResult(
        std::make_unique<GeneratedKernel<Info>>(info, std::move(id), *library, std::move(checks).value(), bind));
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
