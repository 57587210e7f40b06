#include "scatter/put.h"
#include "scatter/scatter.h"

namespace refactor::kernel {

using namespace movement;

namespace {

/// The walk over updates in their order. Where one goes is the sum of what the index names and of a base, of which
/// every axis but the indexed one has a part.
struct Walk {
    IndexedAxes indexed;
    Put put;
    Dims sizes, steps;  ///< of updates, and what one more along them adds to the base; 0 along the indexed axis
    size_t split;       ///< threads share this axis: what they write is apart
    int64_t parts;
};

/// Axes of one element are left out, those that follow each other on both sides are one.
void merge_axes(Walk& w, Dims const& updates, Dims const& strides, int64_t axis) {
    for (size_t i = 0; i < updates.size(); ++i) {
        auto size = updates[i], step = static_cast<int64_t>(i) == axis ? 0 : strides[i];
        if (size == 1) continue;
        if (step != 0 && !w.sizes.empty() && w.steps.back() == step * size)
            w.sizes.back() *= size, w.steps.back() = step;
        else
            w.sizes.push_back(size), w.steps.push_back(step);
    }
    if (w.sizes.empty()) w.sizes.push_back(1), w.steps.push_back(0);
}

/// The first axis that all threads get enough of, or the largest. What a thread takes of later ones than the first is
/// in many pieces, of which one a thread is enough, and between lines that other cores have copied.
void choose_split(Walk& w, int threads) {
    constexpr int64_t kLeast = 16 << 10, kLeastOfPieces = 128 << 10;  // elements, of 2 ns each
    w.split = 0, w.parts = 1;
    auto count = element_count(w.sizes);
    for (size_t i = 0; i < w.sizes.size() && w.parts < threads; ++i)
        if (w.steps[i] != 0 && w.sizes[i] > w.parts && count >= (i ? kLeastOfPieces : kLeast))
            w.split = i, w.parts = std::min(w.sizes[i], int64_t{i ? 1 : 4} * threads);
}

/// Bases of `count` updates from `first` on.
void fill_bases(Walk const& w, int64_t first, int64_t count, int64_t* to) {
    auto last = w.sizes.size() - 1;
    auto n = w.sizes[last], along = w.steps[last];
    Dims at(w.sizes.size());
    int64_t base = 0;
    for (auto i = w.sizes.size(); i-- > 0; first /= w.sizes[i]) at[i] = first % w.sizes[i], base += at[i] * w.steps[i];
    for (int64_t done = 0; done < count;) {
        auto run = std::min(n - at[last], count - done);
        for (int64_t i = 0; i < run; ++i) to[done + i] = base + i * along;
        done += run, base -= at[last] * along, at[last] = 0;
        for (auto i = last; i-- > 0;) {
            base += w.steps[i];
            if (++at[i] < w.sizes[i]) break;
            base -= at[i] * w.steps[i], at[i] = 0;
        }
    }
}

void put_updates(Walk const& w, std::byte* y, void const* indices, std::byte const* updates, int64_t begin,
                 int64_t end) {
    int64_t to[kOffsets];
    for (; begin < end; begin += kOffsets) {
        auto count = std::min(kOffsets, end - begin);
        fill_bases(w, begin, count, to);
        add_offsets(w.indexed, indices, begin, count, to);
        w.put.runs(y, to, count, updates + begin * w.put.bytes);
    }
}

TaskResult bind_elements(ScatterInfo const& info, BindArgs const& args, Isa isa) {
    if (auto no = refuse_shapes(info, args)) return Err{*no};
    auto const &x = *args.inputs[0], &updates = *args.inputs[2];
    Walk w{indexed_axes(info, x, *args.inputs[1]), Put::of(info.reduction, x.dtype, isa), {}, {}, 0, 1};
    merge_axes(w, updates.dims, strides_of(x.dims), info.axis);
    choose_split(w, args.threads);
    auto outer = count_of(w.sizes, 0, w.split), inner = count_of(w.sizes, w.split + 1, w.sizes.size());
    auto body = [=, bytes = x.count() * w.put.bytes](void* const* a, runtime::RunContext const& c) {
        copy_data(a, bytes, c.pool);
        auto size = w.sizes[w.split];
        c.pool.parallel_for(w.parts, [&](int64_t part, int) {
            auto begin = size * part / w.parts, end = size * (part + 1) / w.parts;
            for (int64_t o = 0; o < outer; ++o)
                put_updates(w, static_cast<std::byte*>(a[3]), a[1], static_cast<std::byte const*>(a[2]),
                            (o * size + begin) * inner, (o * size + end) * inner);
        });
    };
    return make_task(body, 1);
}

}  // namespace

KernelResult scatter_elements(ScatterInfo const& info, Request const& request) {
    if (auto no = refuse_operands(info, request)) return Err{*no};
    if (info.axis < 0) return Err{Rejection{"ScatterND, expected ScatterElements"}};
    return make_kernel(info, "scatter", "elements", request, bind_elements);
}

}  // namespace refactor::kernel
