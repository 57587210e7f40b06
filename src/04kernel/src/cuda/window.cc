#include "conv/geometry.h"
#include "cuda/instances.h"
#include "cuda/kernels.h"
#include "integer_pool/integer_pool.h"
#include "lrn/lrn.h"
#include "max_unpool/max_unpool.h"
#include "movement/movement.h"
#include "pool/pool.h"

#include <bit>
#include <limits>

namespace refactor::kernel::cuda {

namespace {

uint64_t word(int64_t value) { return static_cast<uint64_t>(value); }
uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }
int64_t blocks_of(int64_t threads) { return ceil_div(threads, kBlockThreads); }

/// The words of `rg_taps`.
void add_window(std::vector<uint64_t>& numbers, Geometry const& g) {
    for (auto const* sizes : {g.out, g.in, g.kernel, g.stride, g.dilation, g.pad, g.pad_end})
        for (int axis = 0; axis < 3; ++axis) numbers.push_back(word(sizes[axis]));
}

/// Coordinates are 32-bit numbers.
std::optional<Rejection> too_large(Geometry const& g) {
    for (int axis = 0; axis < 3; ++axis) {
        auto reach = g.in[axis] + g.pad[axis] + g.pad_end[axis] + g.kernel[axis] * g.dilation[axis];
        if (std::max(reach, g.out[axis] * g.stride[axis]) > std::numeric_limits<int32_t>::max())
            return Rejection{"an axis of more than 2^31 elements"};
    }
    return std::nullopt;
}

Result<Launches, Rejection> bind_pool(PoolInfo const& info, BindArgs const& args, Instances const& instances) {
    auto g = pool_geometry(info.window, info.kernel, args);
    if (!g) return Err{g.error()};
    if (auto no = too_large(*g)) return Err{*no};
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    bool indices = args.outputs.size() > 1 && args.outputs[1];
    bool wide = std::max(x.count(), y.count()) > std::numeric_limits<int32_t>::max();
    std::vector<uint64_t> numbers{word(y.count())};
    add_window(numbers, *g);
    auto call = template_text("rg_pool", element_text(x.dtype), static_cast<int>(info.kind), info.count_include_pad,
                              info.column_major, indices, wide ? "rg_u64" : "unsigned");
    Launches launches;
    launches.operations = static_cast<double>(y.count() * g->taps());
    launches.list.push_back(instances.launch("rg_pool", call, blocks_of(y.count()),
                                             {operand(0), operand(1), indices ? operand(2) : kNowhere},
                                             std::move(numbers)));
    return launches;
}

Result<Launches, Rejection> bind_integer_pool(IntegerPoolInfo const& info, BindArgs const& args,
                                              Instances const& instances) {
    auto g = integer_pool_geometry(info, args);
    if (!g) return Err{g.error()};
    if (auto no = too_large(*g)) return Err{*no};
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    auto f32 = [](float value) { return uint64_t{std::bit_cast<uint32_t>(value)}; };
    std::vector<uint64_t> numbers{word(y.count()), word(g->in_channels), word(info.x_zero), f32(info.scale),
                                  word(info.y_zero)};
    add_window(numbers, *g);
    auto call = template_text("rg_pool_bytes", element_text(x.dtype), element_text(y.dtype),
                              static_cast<int>(info.kind), info.count_include_pad);
    Launches launches;
    launches.operations = static_cast<double>(y.count() * g->taps());
    launches.list.push_back(
        instances.launch("rg_pool_bytes", call, blocks_of(y.count()), {operand(0), operand(1)}, std::move(numbers)));
    return launches;
}

Result<Launches, Rejection> bind_lrn(LrnInfo const& info, BindArgs const& args, Instances const& instances) {
    auto const& x = *args.inputs[0];
    auto positions = element_count(std::span<int64_t const>(x.dims).subspan(2));
    auto alpha = static_cast<double>(info.alpha) / static_cast<double>(info.size);
    Launches launches;
    launches.operations = 2. * static_cast<double>(x.count() * info.size);
    launches.list.push_back(instances.launch(
        "rg_lrn", template_text("rg_lrn", element_text(x.dtype)), blocks_of(x.count()), {operand(0), operand(1)},
        {word(x.count()), word(x.dims[1]), word(positions), word((info.size - 1) / 2), word(info.size / 2), bits(alpha),
         bits(static_cast<double>(info.beta)), bits(static_cast<double>(info.bias))}));
    return launches;
}

/// An unsigned type of as many bytes: elements are moved, not read.
char const* word_text(DataType type) {
    switch (bits_of(type)) {
        case 8:
            return "unsigned char";
        case 16:
            return "unsigned short";
        case 32:
            return "unsigned";
        case 64:
            return "rg_u64";
        default:
            return "rg_vec<rg_u64, 2>";
    }
}

Result<Launches, Rejection> bind_max_unpool(MaxUnpoolInfo const&, BindArgs const& args, Instances const& instances) {
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    auto steps = movement::strides_of(y.dims);
    std::vector<uint64_t> numbers{word(x.count()), word(element_count(args.params))};
    for (auto size : args.params) numbers.push_back(word(size));
    for (auto step : steps) numbers.push_back(word(step));
    Launches launches;
    launches.workspace = static_cast<size_t>(y.count()) * sizeof(uint64_t);
    launches.list.push_back(
        instances.launch("rg_unpool_zero", "rg_unpool_clear", blocks_of(y.count()), {scratch()}, {word(y.count())}));
    launches.list.push_back(instances.launch("rg_unpool_last", template_text("rg_unpool_place", args.params.size()),
                                             blocks_of(x.count()), {operand(1), scratch(), {Address::kFault}},
                                             std::move(numbers)));
    launches.list.push_back(instances.launch("rg_unpool", template_text("rg_unpool_fill", word_text(x.dtype)),
                                             blocks_of(y.count()), {operand(0), scratch(), operand(2)},
                                             {word(y.count())}));
    return launches;
}

}  // namespace

MaybeKernel pool_nvrtc(PoolInfo const& info, Request const& request) {
    return make_instances(info, request, "pool", request.inputs[0].dtype, kWindowSource, pool_reference, bind_pool);
}

MaybeKernel integer_pool_nvrtc(IntegerPoolInfo const& info, Request const& request) {
    return make_instances(info, request, "integer_pool", request.inputs[0].dtype, kWindowSource,
                          make_integer_pool_reference, bind_integer_pool);
}

MaybeKernel lrn_nvrtc(LrnInfo const& info, Request const& request) {
    return make_instances(info, request, "lrn", request.inputs[0].dtype, kWindowSource, lrn_reference, bind_lrn);
}

MaybeKernel max_unpool_nvrtc(MaxUnpoolInfo const& info, Request const& request) {
    return make_instances(info, request, "max_unpool", request.inputs[0].dtype, kWindowSource, max_unpool_reference,
                          bind_max_unpool);
}

}  // namespace refactor::kernel::cuda
