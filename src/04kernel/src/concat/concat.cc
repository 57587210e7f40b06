#include "concat/concat.h"

#include "cuda/movement_kernels.h"
#include "movement/row_pieces.h"

#include <vector>

namespace refactor::kernel {

using namespace movement;

std::string ConcatInfo::attributes() const { return "axis=" + std::to_string(axis); }

Candidates candidates(ConcatInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("concat:nvidia:nvrtc", cuda::concat_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "concat/concat_kernels.inc"
#undef RG_KERNEL
    return result;
}

std::optional<Rejection> refuse_concat(ConcatInfo const& info, Request const& request) {
    if (auto no = refuse(request, {.max_inputs = SIZE_MAX, .blocked = true})) return no;
    for (auto const& x : request.inputs) {
        if (x.dtype != request.outputs[0].dtype) return Rejection{"inputs of different dtypes"};
        if (x.layout != request.outputs[0].layout) return Rejection{"inputs of different layouts"};
        if (x.layout == Layout::Plain) continue;
        if (info.axis != 1) return Rejection{"blocked layout and axis " + std::to_string(info.axis) + ", expected 1"};
        if (x.dims.size() < 2)
            return Rejection{"blocked layout and shape " + movement::to_string(x.dims) + ", expected channels"};
    }
    return std::nullopt;
}

namespace {

/// Whether runs of channels are runs of bytes.
std::optional<Rejection> refuse_parts_of_blocks(Request const& request) {
    auto block = block_of(request.outputs[0].layout);
    for (auto const& x : request.inputs)
        if (block > 1 && x.dims[1] % block)
            return Rejection{"blocked layout and shape " + movement::to_string(x.dims) +
                             ", expected whole blocks of channels"};
    return std::nullopt;
}

TaskResult bind_rows(ConcatInfo const& info, BindArgs const& args, Isa isa) {
    auto pieces = RowPieces::make(*args.outputs[0], args.inputs, info.axis);
    if (!pieces) return Err{pieces.error()};
    if (pieces->short_runs())
        return make_task([p = *pieces, isa](void* const* a, runtime::RunContext const& c) {
            auto* y = static_cast<std::byte*>(a[p.begin.size() - 1]);
            p.for_each_strip(c.pool, [&](size_t i, int64_t first, int64_t count) {
                auto run = p.run_bytes(i);
                copy_runs_of(run, isa)(static_cast<std::byte*>(a[i]) + first * run, run,
                                       y + first * p.row_bytes + p.begin[i], p.row_bytes, count, run);
            });
        });
    return make_task([p = *pieces](void* const* a, runtime::RunContext const& c) {
        auto* y = static_cast<char*>(a[p.begin.size() - 1]);
        p.for_each_run(c.pool, [&](size_t i, int64_t from, int64_t to, int64_t bytes) {
            std::memcpy(y + to, static_cast<char*>(a[i]) + from, bytes);
        });
    });
}

/// Element by element in the order of the output.
TaskResult bind_reference_rows(ConcatInfo const& info, BindArgs const& args) {
    auto pieces = RowPieces::make(*args.outputs[0], args.inputs, info.axis);
    if (!pieces) return Err{pieces.error()};
    return make_task([p = *pieces](void* const* a, runtime::RunContext const&) {
        auto* y = static_cast<char*>(a[p.begin.size() - 1]);
        for (int64_t row = 0; row < p.rows; ++row)
            for (size_t i = 0; i + 1 < p.begin.size(); ++i)
                for (auto b = p.begin[i]; b < p.begin[i + 1]; ++b)
                    *y++ = static_cast<char*>(a[i])[row * (p.begin[i + 1] - p.begin[i]) + b - p.begin[i]];
    });
}

/// The same in blocks of channels, with zeros behind the last.
TaskResult bind_reference(ConcatInfo const& info, BindArgs const& args, Isa) {
    auto const& y = *args.outputs[0];
    if (y.layout == Layout::Plain) return bind_reference_rows(info, args);
    std::vector<int64_t> channels;
    for (auto const* x : args.inputs) channels.push_back(x->dims[1]);
    int64_t positions = 1;
    for (size_t i = 2; i < y.dims.size(); ++i) positions *= y.dims[i];
    return make_task([=, images = y.dims[0], all = y.dims[1], block = block_of(y.layout),
                      bytes = element_bytes(y.dtype)](void* const* a, runtime::RunContext const&) {
        auto padded = [&](int64_t count) { return (count + block - 1) / block * block; };
        auto offset = [&](int64_t image, int64_t channel, int64_t count, int64_t position) {
            return ((image * padded(count) + channel / block * block) * positions + position * block +
                    channel % block) *
                   bytes;
        };
        auto* target = static_cast<char*>(a[channels.size()]);
        std::memset(target, 0, static_cast<size_t>(images * padded(all) * positions * bytes));
        for (int64_t image = 0; image < images; ++image)
            for (int64_t i = 0, first = 0; i < std::ssize(channels); first += channels[static_cast<size_t>(i++)])
                for (int64_t c = 0, count = channels[static_cast<size_t>(i)]; c < count; ++c)
                    for (int64_t p = 0; p < positions; ++p)
                        std::memcpy(target + offset(image, first + c, all, p),
                                    static_cast<char const*>(a[i]) + offset(image, c, count, p),
                                    static_cast<size_t>(bytes));
    });
}

}  // namespace

KernelResult concat_rows(ConcatInfo const& info, Request const& request) {
    if (auto no = refuse_concat(info, request)) return Err{*no};
    if (auto no = refuse_parts_of_blocks(request)) return Err{*no};
    return make_kernel(info, "concat", "rows", request, bind_rows);
}

KernelResult concat_reference(ConcatInfo const& info, Request const& request) {
    if (auto no = refuse_concat(info, request)) return Err{*no};
    return make_kernel(info, "concat", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
