#include "common/thread_pool.h"
#include "reduce/scalar_type.h"
#include "top_k/top_k.h"

#include <algorithm>
#include <cmath>

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 4;
/// One of the steps, log2 of the row's size for each of k elements, that take the elements out of a heap.
constexpr double kNsPerStep = 8;

/// Total order: NaN above every number (as numpy sorts), equal values by index.
template <class W>
struct Entry {
    W value;
    int64_t index;
};
template <class W>
bool below(W a, W b) {
    return a < b || (b != b && a == a);
}

class TopKReference final : public runtime::Task {
    using Body = void (*)(TopKReference const&, void* const*, int64_t, void*);
    TopKInfo info_;
    AxisSplit split_;
    int64_t k_;
    int threads_;
    Body body_ = nullptr;

    template <class T>
    static void select(TopKReference const& self, void* const* arguments, int64_t row, void* scratch) {
        using E = Entry<Wide<T>>;
        auto [_, size, inner] = self.split_;
        auto outer = row / inner, i = row % inner;
        auto const* x = static_cast<T const*>(arguments[0]) + outer * size * inner + i;
        auto k = self.k_;
        auto* values = static_cast<T*>(arguments[1]) + outer * k * inner + i;
        auto* indices = static_cast<int64_t*>(arguments[2]) + outer * k * inner + i;
        auto* entries = static_cast<E*>(scratch);
        for (int64_t j = 0; j < size; ++j) entries[j] = {widen(x[j * inner]), j};
        auto before = [largest = self.info_.largest](E const& a, E const& b) {
            if (largest ? below(b.value, a.value) : below(a.value, b.value)) return true;
            if (largest ? below(a.value, b.value) : below(b.value, a.value)) return false;
            return a.index < b.index;
        };
        std::partial_sort(entries, entries + k, entries + size, before);
        for (int64_t j = 0; j < k; ++j) {
            values[j * inner] = x[entries[j].index * inner];
            indices[j * inner] = entries[j].index;
        }
    }
    size_t scratch_bytes() const override { return (static_cast<size_t>(split_.size) * 16 + 63) / 64 * 64; }

public:
    TopKReference(TopKInfo const& info, BindArgs const& args)
        : info_(info),
          split_(args.inputs[0]->dims, info.axis),
          k_(args.outputs[0]->dims[info.axis]),
          threads_(args.threads) {
        visit_numeric(args.inputs[0]->dtype, [&](auto tag) { body_ = select<typename decltype(tag)::type>; });
    }
    static MaybeTask make(TopKInfo const& info, BindArgs const& args) {
        auto size = args.inputs[0]->dims[info.axis], k = args.outputs[0]->dims[info.axis];
        if (k < 0 || k > size)
            return reject("k is " + std::to_string(k) + ", expected 0 to " + std::to_string(size) +
                          " (the size of axis " + std::to_string(info.axis) + ")");
        return std::unique_ptr<runtime::Task>(new TopKReference(info, args));
    }
    static double row_cost(int64_t size, int64_t k) {
        auto steps = static_cast<double>(k) * std::log2(static_cast<double>(size) + 1);
        return static_cast<double>(size) * kNsPerElement + steps * kNsPerStep;
    }
    static Result<double, Rejection> cost(TopKInfo const& info, BindArgs const& args) {
        auto size = args.inputs[0]->dims[info.axis];
        auto rows = args.inputs[0]->count() / std::max<int64_t>(1, size);
        return static_cast<double>(rows) * row_cost(size, args.outputs[0]->dims[info.axis]);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto rows = split_.outer * split_.inner;
        auto chunks = chunks_of(rows, row_cost(split_.size, k_), threads_);
        context.pool.parallel_for(chunks, [&](int64_t c, int worker) {
            auto* scratch = context.scratch_of(worker);
            for (auto r = rows * c / chunks; r < rows * (c + 1) / chunks; ++r) body_(*this, arguments, r, scratch);
        });
    }
};

}  // namespace

MaybeKernel make_top_k_reference(TopKInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (!is_any_numeric(dtype)) return reject("dtype " + std::string(refactor::name_of(dtype)) + " has no order");
    return std::unique_ptr<Kernel>(new InfoKernel<TopKInfo, TopKReference>(id_of("top_k", "reference", dtype), info));
}

}  // namespace refactor::kernel
