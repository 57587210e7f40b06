#include "pad/pad.h"

#include "cuda/generated.h"
#include "cuda/movement_kernels.h"

namespace refactor::kernel::cuda {

namespace {

constexpr char const* kPadBody = R"cuda(
enum { kConstant, kReflect, kEdge, kWrap };
typedef rg_vec<Element, kWidth> Word;
struct rg_pad_args { rg_u64 x, value, y, count; rg_axis sizes[kRank]; rg_u64 begins[kRank], ins[kRank], steps[kRank]; };
// Coordinate of the input that coordinate `i` shows, -1 for the constant.
RG_FN Signed rg_source(Signed i, Signed size) {
    if (i >= 0 && i < size) return i;
    if (kMode == kConstant) return -1;
    if (kMode == kEdge) return i < 0 ? 0 : size - 1;
    if (kMode == kReflect && size == 1) return 0;
    Signed period = kMode == kWrap ? size : 2 * (size - 1), j = i % period;
    if (j < 0) j += period;
    return j < size ? j : period - j;
}
RG_GLOBAL rg_pad(rg_pad_args a) {
    RG_WAIT();
    Word const* x = (Word const*)a.x;
    Word* y = (Word*)a.y;
    Word padding = {};
    if (a.value)
        for (int k = 0; k < kWidth; ++k) padding.v[k] = *(Element const*)a.value;
    rg_for_items<kItems, Word>((Index)a.count, [&](Index rest) {
        Index from = 0;
        bool inside = true;
#pragma unroll
        for (int axis = kRank - 1; axis >= 0; --axis) {
            Index at = rg_split(rest, a.sizes[axis]);
            Signed source = rg_source((Signed)at - (Signed)a.begins[axis], (Signed)a.ins[axis]);
            inside = inside && source >= 0;
            from += (Index)source * (Index)a.steps[axis];
        }
        return inside ? x[from] : padding;
    }, [&](Index i, Word word) { y[i] = word; });
}
)cuda";

/// Axes of a padded tensor, those without padding merged.
struct Padding {
    Dims in, out, begins;

    void add(int64_t x, int64_t y, int64_t begin) {
        bool kept = x == y && begin == 0;
        if (kept && x == 1) return;
        if (kept && !in.empty() && in.back() == out.back() && begins.back() == 0) {
            in.back() *= x, out.back() *= y;
            return;
        }
        in.push_back(x), out.push_back(y), begins.push_back(begin);
    }
    /// Whole rows that are there or not are elements of the axis before.
    void absorb_rows() {
        auto rank = in.size();
        if (rank < 2 || in.back() != out.back() || begins.back() != 0) return;
        auto row = in.back();
        for (auto* list : {&in, &out, &begins}) list->pop_back(), list->back() *= row;
    }
};

Result<Launches, Rejection> bind_pad(PadInfo const& info, BindArgs const& args, Code const& code) {
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    Padding axes;
    for (size_t i = 0; i < x.dims.size(); ++i) axes.add(x.dims[i], y.dims[i], args.params[i]);
    if (info.mode == PadMode::Constant) axes.absorb_rows();
    if (axes.in.empty()) axes.in = axes.out = {1}, axes.begins = {0};
    auto bytes = movement::element_bytes(x.dtype), width = kWidestBytes / bytes;
    bool moves = axes.in.back() != axes.out.back() || axes.begins.back() != 0;
    if (moves && info.mode != PadMode::Constant) width = 1;
    while (axes.in.back() % width || axes.out.back() % width || axes.begins.back() % width) width /= 2;
    auto steps = movement::strides_of(axes.in);
    for (auto& step : steps) step /= width;
    steps.back() = 1;
    for (auto* list : {&axes.in, &axes.out, &axes.begins}) list->back() /= width;
    auto count = element_count(axes.out);
    GeneratedLaunch launch;
    auto items = items_of(bytes * width);
    auto kind = index_kind(count < kNarrow && x.count() < kNarrow) + word_kind("Element", bytes) +
                constant_kind("kWidth", width) + constant_kind("kMode", static_cast<int64_t>(info.mode)) +
                constant_kind("kRank", static_cast<int64_t>(axes.in.size())) + constant_kind("kItems", items);
    launch.function = code.function("rg_pad", kind, kPadBody);
    launch.blocks = blocks_for(count, items * kBlockThreads);
    bool has_value = args.inputs.size() > 1 && args.inputs[1];
    launch.on({0, has_value ? 1 : Address::kNone, static_cast<int>(args.inputs.size())});
    launch.add(count), launch.add_axes(axes.out);
    launch.add_steps(axes.begins), launch.add_steps(axes.in), launch.add_steps(steps);
    return Launches{{launch}};
}

}  // namespace

KernelResult pad_nvrtc(PadInfo const& info, Request const& request) {
    return generate(info, "pad", request, pad_reference, bind_pad);
}

}  // namespace refactor::kernel::cuda
