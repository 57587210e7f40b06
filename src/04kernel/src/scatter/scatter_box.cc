#include "mem_manager/blob.h"
#include "movement/counted_tuples.h"
#include "movement/strided_copy.h"
#include "scatter/scatter.h"

namespace refactor::kernel {

using namespace movement;

namespace {

/// A box of data in which the indices count along one axis after the other, as in `x[:, a:b, ::2] = updates`.
struct Box {
    static constexpr int64_t kNone = -1;
    CountedTuples tuples;
    SmallVector<int64_t, 8> axes;  ///< that the levels of `tuples` count along

    static std::optional<Box> of(CountedTuples tuples);
    /// Index of each axis at which the box begins; nothing if it does not fit into `dims`.
    std::optional<Dims> begin_in(Dims const& dims) const;
};

std::optional<Box> Box::of(CountedTuples tuples) {
    Box box{std::move(tuples), {}};
    for (auto const& level : box.tuples.levels) {
        int64_t axis = kNone;
        for (size_t k = 0; k < level.step.size(); ++k) {
            if (level.step[k] == 0) continue;
            if (level.step[k] < 0 || axis != kNone) return std::nullopt;
            axis = static_cast<int64_t>(k);
        }
        // A tuple that is there twice, or an axis that two levels count along.
        if (axis == kNone || std::find(box.axes.begin(), box.axes.end(), axis) != box.axes.end()) return std::nullopt;
        box.axes.push_back(axis);
    }
    return box;
}

std::optional<Dims> Box::begin_in(Dims const& dims) const {
    auto begin = tuples.first, last = tuples.last();
    for (size_t k = 0; k < begin.size(); ++k) {
        if (begin[k] < -dims[k] || last[k] >= dims[k] || (begin[k] < 0) != (last[k] < 0)) return std::nullopt;
        if (begin[k] < 0) begin[k] += dims[k];
    }
    return begin;
}

TaskResult bind_box(Box const& box, BindArgs const& args, Isa isa) {
    if (auto no = refuse_shapes(ScatterInfo{}, args)) return Err{*no};
    auto const& x = *args.inputs[0];
    auto depth = box.tuples.first.size();
    auto begin = box.begin_in(x.dims);
    if (!begin) return Err{Rejection{"indices that count past an end of data " + to_string(x.dims)}};
    auto strides = strides_of(x.dims);
    Dims sizes, to;
    for (size_t i = 0; i < box.axes.size(); ++i) {
        auto const& level = box.tuples.levels[i];
        auto axis = static_cast<size_t>(box.axes[i]);
        sizes.push_back(level.count), to.push_back(level.step[axis] * strides[axis]);
    }
    int64_t offset = 0;
    for (size_t k = 0; k < depth; ++k) offset += (*begin)[k] * strides[k];
    sizes.push_back(count_of(x.dims, depth, x.dims.size())), to.push_back(1);
    auto bytes = x.count() * element_bytes(x.dtype);
    StridedCopy copy(sizes, strides_of(sizes), to, element_bytes(x.dtype), isa);
    offset *= element_bytes(x.dtype);
    auto body = [=](void* const* a, runtime::RunContext const& c) {
        if (copy.bytes() < bytes) copy_data(a, bytes, c.pool);
        copy.run(a[2], static_cast<std::byte*>(a[3]) + offset, c.pool);
    };
    return make_task(body, 1, 0, 0, 2);
}

/// The box that constant indices are, or why they are none.
Result<Box, Rejection> box_of(ScatterInfo const& info, Request const& request) {
    if (auto no = refuse_operands(info, request)) return Err{*no};
    if (info.axis >= 0) return Err{Rejection{"ScatterElements, expected ScatterND"}};
    if (info.reduction != ScatterReduction::None) return Err{Rejection{"a reduction"}};
    auto const& indices = request.inputs[1];
    if (!indices.constant) return Err{Rejection{"indices that are not constant"}};
    if (indices.count() == 0) return Err{Rejection{"no indices"}};
    auto depth = indices.dims.back();
    mem_manager::Blob::Reader reader(*indices.constant);
    auto tuples =
        CountedTuples::of(reader.data(), indices.dtype, indices.count() / depth, depth, static_cast<size_t>(depth));
    auto box = tuples ? Box::of(std::move(*tuples)) : std::nullopt;
    if (!box) return Err{Rejection{"indices that are no box"}};
    return std::move(*box);
}

}  // namespace

KernelResult scatter_box(ScatterInfo const& info, Request const& request) {
    auto box = box_of(info, request);
    if (!box) return Err{box.error()};
    return make_kernel(*box, "scatter", "box", request, bind_box);
}

}  // namespace refactor::kernel
