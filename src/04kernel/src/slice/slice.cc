#include "slice/slice.h"

#include "conv/geometry.h"
#include "cuda/movement_kernels.h"
#include "movement/channel_copy.h"
#include "movement/strided_copy.h"

namespace refactor::kernel {

using namespace movement;

std::string SliceInfo::attributes() const { return "steps=" + to_string(steps); }

Candidates candidates(SliceInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("slice:nvidia:nvrtc", cuda::slice_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "slice/slice_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

std::optional<Rejection> refuse_slice(SliceInfo const& info, Request const& request) {
    if (auto no = refuse(request, {.blocked = true})) return no;
    auto const &x = request.inputs[0], &y = request.outputs[0];
    if (x.layout != y.layout) return Rejection{"input and output of different layouts"};
    if (x.layout != Layout::Plain && (info.steps.size() < 2 || info.steps[1] != 1))
        return Rejection{"blocked layout and steps " + movement::to_string(info.steps) +
                         ", expected 1 for the channels"};
    if (std::find(info.steps.begin(), info.steps.end(), 0) != info.steps.end())
        return Rejection{"steps " + movement::to_string(info.steps) + ", expected no zero"};
    if (info.steps.size() > StridedCopy::kMaxRank)
        return Rejection{"rank " + std::to_string(info.steps.size()) + ", at most 18"};
    return std::nullopt;
}

/// Where the slice begins and how it walks, in elements of the input.
struct Walk {
    int64_t begin = 0;
    Dims strides;
};

Result<Walk, Rejection> walk_of(SliceInfo const& info, BindArgs const& args) {
    auto const &x = args.inputs[0]->dims, &y = args.outputs[0]->dims;
    auto rank = x.size();
    if (y.size() != rank || info.steps.size() != rank || args.params.size() != rank)
        return Err{Rejection{"input " + to_string(x) + ", output " + to_string(y) + ", steps " + to_string(info.steps) +
                             ", starts " + to_string(args.params) + ": expected one of each for every axis"}};
    auto strides = strides_of(x);
    Walk walk;
    for (size_t i = 0; i < rank; ++i) {
        auto first = args.params[i], last = first + (y[i] - 1) * info.steps[i];
        if (args.outputs[0]->count() > 0 && (first < 0 || first >= x[i] || last < 0 || last >= x[i]))
            return Err{Rejection{"elements " + std::to_string(first) + " to " + std::to_string(last) + " of axis " +
                                 std::to_string(i) + " of size " + std::to_string(x[i])}};
        walk.begin += first * strides[i];
        walk.strides.push_back(strides[i] * info.steps[i]);
    }
    return walk;
}

/// Sizes in memory: those of blocked layouts begin [N, blocks of channels] and end with the channels of a block.
Dims stored_dims(TensorDesc const& t) {
    Dims dims = t.dims;
    if (auto block = block_of(t.layout); block > 1) {
        dims[1] = (dims[1] + block - 1) / block;
        dims.push_back(block);
    }
    return dims;
}

/// The walk over whole blocks of channels.
Result<Walk, Rejection> walk_over_blocks(SliceInfo const& info, BindArgs const& args) {
    auto walk = walk_of(info, args);
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    auto block = block_of(x.layout);
    if (!walk || block == 1) return walk;
    auto first = args.params[1], last = first + y.dims[1];
    if (first % block || (last % block && last != x.dims[1]))
        return Err{Rejection{"channels " + std::to_string(first) + " to " + std::to_string(last - 1) +
                             ", expected whole blocks of " + std::to_string(block)}};
    auto strides = strides_of(stored_dims(x));
    *walk = {0, strides};
    for (size_t i = 0; i < info.steps.size(); ++i) {
        walk->begin += args.params[i] / (i == 1 ? block : 1) * strides[i];
        walk->strides[i] = strides[i] * info.steps[i];
    }
    return walk;
}

TaskResult bind_strided(SliceInfo const& info, BindArgs const& args, Isa isa) {
    auto walk = walk_over_blocks(info, args);
    if (!walk) return Err{walk.error()};
    auto const& y = *args.outputs[0];
    auto bytes = element_bytes(y.dtype);
    auto sizes = stored_dims(y);
    StridedCopy copy(sizes, walk->strides, strides_of(sizes), bytes, isa);
    return make_task([copy, offset = walk->begin * bytes](void* const* a, runtime::RunContext const& c) {
        if (copy.bytes() > 0) copy.run(static_cast<char const*>(a[0]) + offset, a[1], c.pool);
    });
}

/// Channels of blocks, nothing else cut.
TaskResult bind_lanes(SliceInfo const& info, BindArgs const& args, Isa) {
    if (auto walk = walk_of(info, args); !walk) return Err{walk.error()};
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    for (size_t i = 0; i < x.dims.size(); ++i)
        if (i != 1 && (info.steps[i] != 1 || x.dims[i] != y.dims[i]))
            return Err{Rejection{"a slice of axis " + std::to_string(i) + ", expected of channels alone"}};
    return make_task(
        [copy = ChannelCopy(y, args.inputs, args.params[1])](void* const* a, runtime::RunContext const& c) {
            parallel_bytes(c.pool, copy.blocks(), copy.bytes(),
                           [&](int64_t begin, int64_t end) { copy.run(a, a[1], begin, end); });
        });
}

/// Element by element; channels behind the last are zero.
TaskResult bind_reference_blocks(SliceInfo const& info, BindArgs const& args) {
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    return make_task([=, steps = info.steps, from = Addressing(x), to = Addressing(y), bytes = element_bytes(y.dtype),
                      starts = Dims(args.params.begin(), args.params.end()), x_dims = x.dims, dims = y.dims,
                      stored = y.stored_count()](void* const* a, runtime::RunContext const&) {
        std::memset(a[1], 0, static_cast<size_t>(stored * bytes));
        for_each_coordinate(dims, [&](Dims const& at, int64_t) {
            int64_t x_position = 0, y_position = 0;
            for (size_t i = 2; i < at.size(); ++i) {
                x_position = x_position * x_dims[i] + starts[i] + at[i] * steps[i];
                y_position = y_position * dims[i] + at[i];
            }
            std::memcpy(
                static_cast<char*>(a[1]) + to.at(at[0], at[1], y_position) * bytes,
                static_cast<char*>(a[0]) + from.at(starts[0] + at[0] * steps[0], starts[1] + at[1], x_position) * bytes,
                static_cast<size_t>(bytes));
        });
    });
}

TaskResult bind_reference(SliceInfo const& info, BindArgs const& args, Isa) {
    auto walk = walk_of(info, args);
    if (!walk) return Err{walk.error()};
    if (args.inputs[0]->layout != Layout::Plain) return bind_reference_blocks(info, args);
    auto bytes = element_bytes(args.outputs[0]->dtype);
    return make_task([=, w = *walk, dims = args.outputs[0]->dims](void* const* a, runtime::RunContext const&) {
        for_each_coordinate(dims, [&](Dims const& at, int64_t index) {
            auto from = w.begin;
            for (size_t i = 0; i < at.size(); ++i) from += at[i] * w.strides[i];
            std::memcpy(static_cast<char*>(a[1]) + index * bytes, static_cast<char*>(a[0]) + from * bytes, bytes);
        });
    });
}

}  // namespace

KernelResult slice_strided(SliceInfo const& info, Request const& request) {
    if (auto no = refuse_slice(info, request)) return Err{*no};
    return make_kernel(info, "slice", "strided", request, bind_strided);
}

KernelResult slice_lanes(SliceInfo const& info, Request const& request) {
    if (auto no = refuse_slice(info, request)) return Err{*no};
    if (request.inputs[0].layout == Layout::Plain) return Err{Rejection{"expects a blocked layout"}};
    return make_kernel(info, "slice", "lanes", request, bind_lanes);
}

KernelResult slice_reference(SliceInfo const& info, Request const& request) {
    if (auto no = refuse_slice(info, request)) return Err{*no};
    return make_kernel(info, "slice", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
