#include "gather/gather.h"

#include "cuda/movement_kernels.h"
#include "movement/indices.h"

namespace refactor::kernel {

using namespace movement;

std::string GatherInfo::attributes() const { return "axis=" + std::to_string(axis); }

Candidates candidates(GatherInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("gather:nvidia:nvrtc", cuda::gather_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "gather/gather_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

std::optional<Rejection> refuse_gather(Request const& request) {
    if (auto no = refuse(request, {.min_inputs = 2, .max_inputs = 2})) return no;
    if (is_index(request.inputs[1].dtype)) return std::nullopt;
    return Rejection{"indices of " + std::string(name_of(request.inputs[1].dtype)) + ", expected i32 or i64"};
}

/// y[o, i, :] = x[o, indices[i], :] with rows of `row` bytes.
struct Sizes {
    int64_t outer, size, count, row, axis;
    DataType index;
};

Result<Sizes, Rejection> sizes_of(GatherInfo const& info, BindArgs const& args) {
    auto const &x = *args.inputs[0], &indices = *args.inputs[1], &y = *args.outputs[0];
    auto rank = static_cast<int64_t>(x.dims.size());
    if (info.axis < 0 || info.axis >= rank)
        return Err{Rejection{"axis " + std::to_string(info.axis) + " of an input of rank " + std::to_string(rank)}};
    Sizes s{count_of(x.dims, 0, info.axis),
            x.dims[info.axis],
            indices.count(),
            count_of(x.dims, info.axis + 1, rank) * element_bytes(x.dtype),
            info.axis,
            indices.dtype};
    if (s.outer * s.count * s.row != y.count() * element_bytes(y.dtype))
        return Err{Rejection{"output " + to_string(y.dims) + " for input " + to_string(x.dims) + " and indices " +
                             to_string(indices.dims)}};
    return s;
}

/// Rows of a word's size are copied as words.
template <class T>
void gather_words(Sizes const& s, char const* x, void const* indices, char* y, int64_t begin, int64_t end) {
    for (auto unit = begin; unit < end; ++unit) {
        auto outer = unit / s.count, i = unit % s.count;
        auto index = index_at(indices, s.index, i);
        std::memcpy(y + unit * sizeof(T), x + (outer * s.size + (index < 0 ? index + s.size : index)) * sizeof(T),
                    sizeof(T));
    }
}

void gather_rows_of(Sizes const& s, char const* x, void const* indices, char* y, int64_t begin, int64_t end) {
    for (auto unit = begin; unit < end; ++unit) {
        auto outer = unit / s.count, i = unit % s.count;
        auto index = index_at(indices, s.index, i);
        std::memcpy(y + unit * s.row, x + (outer * s.size + (index < 0 ? index + s.size : index)) * s.row, s.row);
    }
}

TaskResult bind_rows(GatherInfo const& info, BindArgs const& args, Isa) {
    auto sizes = sizes_of(info, args);
    if (!sizes) return Err{sizes.error()};
    return make_task([s = *sizes](void* const* a, runtime::RunContext const& c) {
        for (int64_t i = 0; i < s.count; ++i) checked_index("Gather", index_at(a[1], s.index, i), i, s.axis, s.size);
        auto *x = static_cast<char const*>(a[0]), *indices = static_cast<char const*>(a[1]);
        auto* y = static_cast<char*>(a[2]);
        parallel_bytes(c.pool, s.outer * s.count, s.outer * s.count * s.row, [&](int64_t begin, int64_t end) {
            switch (s.row) {
                case 1:
                    return gather_words<uint8_t>(s, x, indices, y, begin, end);
                case 2:
                    return gather_words<uint16_t>(s, x, indices, y, begin, end);
                case 4:
                    return gather_words<uint32_t>(s, x, indices, y, begin, end);
                case 8:
                    return gather_words<uint64_t>(s, x, indices, y, begin, end);
                default:
                    return gather_rows_of(s, x, indices, y, begin, end);
            }
        });
    });
}

TaskResult bind_reference(GatherInfo const& info, BindArgs const& args, Isa) {
    auto sizes = sizes_of(info, args);
    if (!sizes) return Err{sizes.error()};
    return make_task([s = *sizes](void* const* a, runtime::RunContext const&) {
        auto* y = static_cast<char*>(a[2]);
        for (int64_t outer = 0; outer < s.outer; ++outer)
            for (int64_t i = 0; i < s.count; ++i, y += s.row) {
                auto index = checked_index("Gather", index_at(a[1], s.index, i), i, s.axis, s.size);
                std::memcpy(y, static_cast<char*>(a[0]) + (outer * s.size + index) * s.row, s.row);
            }
    });
}

}  // namespace

KernelResult gather_rows(GatherInfo const& info, Request const& request) {
    if (auto no = refuse_gather(request)) return Err{*no};
    return make_kernel(info, "gather", "rows", request, bind_rows);
}

KernelResult gather_reference(GatherInfo const& info, Request const& request) {
    if (auto no = refuse_gather(request)) return Err{*no};
    return make_kernel(info, "gather", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
