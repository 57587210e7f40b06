#include "gather/gather.h"
#include "mem_manager/blob.h"
#include "movement/counted_tuples.h"
#include "movement/strided_copy.h"

namespace refactor::kernel {

using namespace movement;

namespace {

/// Constant indices that count, as those of slices, of every other row, and of windows that overlap.
struct CountedGather {
    GatherInfo gather;
    CountedTuples tuples;

    /// The first index from the beginning of an axis of `size`; nothing if others are outside of it.
    std::optional<int64_t> first_in(int64_t size) const;
};

std::optional<int64_t> CountedGather::first_in(int64_t size) const {
    auto least = tuples.first[0], largest = least;
    for (auto const& level : tuples.levels) {
        auto way = (level.count - 1) * level.step[0];
        (way < 0 ? least : largest) += way;
    }
    if (0 <= least && largest < size) return tuples.first[0];
    if (-size <= least && largest < 0) return tuples.first[0] + size;
    return std::nullopt;
}

TaskResult bind_counted(CountedGather const& info, BindArgs const& args, Isa isa) {
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    auto axis = info.gather.axis, rank = static_cast<int64_t>(x.dims.size());
    if (axis < 0 || axis >= rank)
        return Err{Rejection{"axis " + std::to_string(axis) + " of an input of rank " + std::to_string(rank)}};
    auto first = info.first_in(x.dims[axis]);
    if (!first) return Err{Rejection{"indices that count past an end of axis " + std::to_string(axis)}};
    auto row = count_of(x.dims, axis + 1, rank);
    Dims sizes{count_of(x.dims, 0, axis)}, from{x.dims[axis] * row};
    for (auto const& level : info.tuples.levels) sizes.push_back(level.count), from.push_back(level.step[0] * row);
    sizes.push_back(row), from.push_back(1);
    if (element_count(sizes) != y.count())
        return Err{Rejection{"output " + to_string(y.dims) + " for input " + to_string(x.dims)}};
    auto bytes = element_bytes(x.dtype);
    StridedCopy copy(sizes, from, strides_of(sizes), bytes, isa);
    auto body = [copy, offset = *first * row * bytes](void* const* a, runtime::RunContext const& c) {
        copy.run(static_cast<std::byte const*>(a[0]) + offset, a[2], c.pool);
    };
    return make_task(body, 0, 0, 0, 2);
}

}  // namespace

KernelResult gather_counted(GatherInfo const& info, Request const& request) {
    if (auto no = refuse_gather(request)) return Err{*no};
    auto const& indices = request.inputs[1];
    if (!indices.constant) return Err{Rejection{"indices that are not constant"}};
    if (indices.count() == 0) return Err{Rejection{"no indices"}};
    constexpr size_t kMostLevels = 4;
    mem_manager::Blob::Reader reader(*indices.constant);
    auto tuples = CountedTuples::of(reader.data(), indices.dtype, indices.count(), 1, kMostLevels);
    if (!tuples) return Err{Rejection{"indices that do not count"}};
    return make_kernel(CountedGather{info, std::move(*tuples)}, "gather", "counted", request, bind_counted);
}

}  // namespace refactor::kernel
