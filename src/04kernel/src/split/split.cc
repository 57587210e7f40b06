#include "split/split.h"

#include "cuda/movement_kernels.h"
#include "movement/row_pieces.h"

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
        auto block = block_of(y.layout);
        if (block > 1 && (info.axis != 1 || y.dims.size() < 2 || y.dims[1] % block))
            return Rejection{"blocked layout, axis " + std::to_string(info.axis) + " and shape " +
                             movement::to_string(y.dims) + ", expected whole blocks of channels"};
    }
    return std::nullopt;
}

TaskResult bind_rows(SplitInfo const& info, BindArgs const& args, Isa) {
    auto pieces = RowPieces::make(*args.inputs[0], args.outputs, info.axis);
    if (!pieces) return Err{pieces.error()};
    if (pieces->short_runs())
        return make_task([p = *pieces](void* const* a, runtime::RunContext const& c) {
            auto* x = static_cast<std::byte const*>(a[0]);
            p.for_each_strip(c.pool, [&](size_t i, int64_t first, int64_t count) {
                auto run = p.run_bytes(i);
                copy_runs_of(run)(x + first * p.row_bytes + p.begin[i], p.row_bytes,
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

/// Byte by byte in the order of the input.
TaskResult bind_reference(SplitInfo const& info, BindArgs const& args, Isa) {
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

}  // namespace

KernelResult split_rows(SplitInfo const& info, Request const& request) {
    if (auto no = refuse_split(info, request)) return Err{*no};
    return make_kernel(info, "split", "rows", request, bind_rows);
}

KernelResult split_reference(SplitInfo const& info, Request const& request) {
    if (auto no = refuse_split(info, request)) return Err{*no};
    return make_kernel(info, "split", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
