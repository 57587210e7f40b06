#include "split/split.h"

#include "conv/geometry.h"
#include "cuda/movement_kernels.h"
#include "movement/channel_copy.h"
#include "movement/row_pieces.h"

#include <vector>

namespace refactor::kernel {

using namespace movement;

std::string SplitInfo::attributes() const { return "axis=" + std::to_string(axis); }

Candidates candidates(SplitInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("split:nvidia:nvrtc", cuda::split_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "split/split_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

std::optional<Rejection> refuse_split(SplitInfo const& info, Request const& request) {
    if (auto no = refuse(request, {.outputs = 0, .blocked = true})) return no;
    for (auto const& y : request.outputs) {
        if (y.dtype != request.inputs[0].dtype) return Rejection{"outputs of different dtypes"};
        if (y.layout != request.inputs[0].layout) return Rejection{"outputs of different layouts"};
        if (y.layout != Layout::Plain && (info.axis != 1 || y.dims.size() < 2))
            return Rejection{"blocked layout, axis " + std::to_string(info.axis) + " and shape " +
                             movement::to_string(y.dims) + ", expected channels, of axis 1"};
    }
    return std::nullopt;
}

/// Whether runs of channels are runs of bytes.
std::optional<Rejection> refuse_parts_of_blocks(Request const& request) {
    auto block = block_of(request.inputs[0].layout);
    for (auto const& y : request.outputs)
        if (block > 1 && y.dims[1] % block)
            return Rejection{"blocked layout and shape " + movement::to_string(y.dims) +
                             ", expected whole blocks of channels"};
    return std::nullopt;
}

TaskResult bind_rows(SplitInfo const& info, BindArgs const& args, Isa isa) {
    auto pieces = RowPieces::make(*args.inputs[0], args.outputs, info.axis);
    if (!pieces) return Err{pieces.error()};
    if (pieces->short_runs())
        return make_task([p = *pieces, isa](void* const* a, runtime::RunContext const& c) {
            auto* x = static_cast<std::byte const*>(a[0]);
            p.for_each_strip(c.pool, [&](size_t i, int64_t first, int64_t count) {
                auto run = p.run_bytes(i);
                copy_runs_of(run, isa)(x + first * p.row_bytes + p.begin[i], p.row_bytes,
                                       static_cast<std::byte*>(a[i + 1]) + first * run, run, count, run);
            });
        });
    return make_task([p = *pieces](void* const* a, runtime::RunContext const& c) {
        auto* x = static_cast<char const*>(a[0]);
        p.for_each_run(c.pool, [&](size_t i, int64_t to, int64_t from, int64_t bytes) {
            std::memcpy(static_cast<char*>(a[i + 1]) + to, x + from, bytes);
        });
    });
}

TaskResult bind_lanes(SplitInfo const&, BindArgs const& args, Isa) {
    std::vector<ChannelCopy> copies;
    int64_t first = 0;
    for (auto const* y : args.outputs) {
        copies.emplace_back(*y, args.inputs, first);
        first += y->dims[1];
    }
    return make_task([copies = std::move(copies)](void* const* a, runtime::RunContext const& c) {
        for (size_t i = 0; i < copies.size(); ++i)
            parallel_bytes(c.pool, copies[i].blocks(), copies[i].bytes(),
                           [&](int64_t begin, int64_t end) { copies[i].run(a, a[i + 1], begin, end); });
    });
}

/// Byte by byte in the order of the input.
TaskResult bind_reference_rows(SplitInfo const& info, BindArgs const& args) {
    auto pieces = RowPieces::make(*args.inputs[0], args.outputs, info.axis);
    if (!pieces) return Err{pieces.error()};
    return make_task([p = *pieces](void* const* a, runtime::RunContext const&) {
        auto* x = static_cast<char const*>(a[0]);
        for (int64_t row = 0; row < p.rows; ++row)
            for (size_t i = 0; i + 1 < p.begin.size(); ++i)
                for (auto b = p.begin[i]; b < p.begin[i + 1]; ++b)
                    static_cast<char*>(a[i + 1])[row * (p.begin[i + 1] - p.begin[i]) + b - p.begin[i]] = *x++;
    });
}

/// The same in blocks of channels, with zeros behind the last of each output.
TaskResult bind_reference(SplitInfo const& info, BindArgs const& args, Isa) {
    if (args.inputs[0]->layout == Layout::Plain) return bind_reference_rows(info, args);
    std::vector<Addressing> outputs;
    for (auto const* y : args.outputs) outputs.emplace_back(*y);
    return make_task([=, x = Addressing(*args.inputs[0]), images = args.inputs[0]->dims[0],
                      bytes = element_bytes(args.inputs[0]->dtype)](void* const* a, runtime::RunContext const&) {
        int64_t first = 0;
        for (size_t i = 0; i < outputs.size(); first += outputs[i++].channels) {
            auto const& y = outputs[i];
            auto* target = static_cast<char*>(a[i + 1]);
            std::memset(target, 0, static_cast<size_t>(y.at(images, 0, 0) * bytes));
            for (int64_t n = 0; n < images; ++n)
                for (int64_t c = 0; c < y.channels; ++c)
                    for (int64_t s = 0; s < y.spatial; ++s)
                        std::memcpy(target + y.at(n, c, s) * bytes,
                                    static_cast<char const*>(a[0]) + x.at(n, first + c, s) * bytes,
                                    static_cast<size_t>(bytes));
        }
    });
}

}  // namespace

KernelResult split_rows(SplitInfo const& info, Request const& request) {
    if (auto no = refuse_split(info, request)) return Err{*no};
    if (auto no = refuse_parts_of_blocks(request)) return Err{*no};
    return make_kernel(info, "split", "rows", request, bind_rows);
}

KernelResult split_lanes(SplitInfo const& info, Request const& request) {
    if (auto no = refuse_split(info, request)) return Err{*no};
    if (request.inputs[0].layout == Layout::Plain) return Err{Rejection{"expects a blocked layout"}};
    return make_kernel(info, "split", "lanes", request, bind_lanes);
}

KernelResult split_reference(SplitInfo const& info, Request const& request) {
    if (auto no = refuse_split(info, request)) return Err{*no};
    return make_kernel(info, "split", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
