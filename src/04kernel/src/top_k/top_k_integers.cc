#include "common/thread_pool.h"
#include "reduce/scalar_type.h"
#include "top_k/top_k.h"

#include <algorithm>
#include <cmath>

namespace refactor::kernel {
namespace {

/// A comparison that is foreseen, nearly always.
constexpr double kNsPerElement = 0.7;
/// One of about log2 k for each of k elements, that sort them; half of them are not foreseen.
constexpr double kNsPerComparison = 3;

/// Keeps what may be among the first k of a row while it is read, a few times k at most, and sorts that.
class TopKIntegers final : public runtime::Task {
    using Body = void (*)(TopKIntegers const&, void* const*, int64_t, void*);
    AxisSplit split_;
    int64_t k_;
    bool smallest_;
    int threads_;
    Body body_ = nullptr;

    /// Less for what comes first.
    template <class U>
    struct Candidate {
        U key;
        int64_t index;
        bool operator<(Candidate const& other) const {
            return key != other.key ? key < other.key : index < other.index;
        }
    };
    int64_t capacity() const { return 2 * k_ + 64; }
    size_t scratch_bytes() const override { return static_cast<size_t>(capacity()) * sizeof(Candidate<uint64_t>); }

    template <class T>
    static void select(TopKIntegers const& self, void* const* arguments, int64_t row, void* scratch) {
        using U = std::make_unsigned_t<T>;
        auto [_, size, inner] = self.split_;
        auto outer = row / inner, i = row % inner, k = self.k_, capacity = self.capacity();
        auto const* x = static_cast<T const*>(arguments[0]) + outer * size * inner + i;
        // Keys of signed numbers are in the order of unsigned ones when their sign is turned.
        auto turn = static_cast<U>(static_cast<U>(std::numeric_limits<T>::min()) ^ (self.smallest_ ? U(0) : U(~U(0))));
        auto* found = static_cast<Candidate<U>*>(scratch);
        int64_t count = 0, j = 0;
        for (; j < std::min(size, capacity); ++j)
            found[count++] = {static_cast<U>(static_cast<U>(x[j * inner]) ^ turn), j};
        while (true) {
            if (count > k) std::nth_element(found, found + k - 1, found + count), count = k;
            if (j == size) break;
            // What follows comes behind its equals.
            auto limit = found[k - 1].key;
            for (; j < size && count < capacity; ++j) {
                auto key = static_cast<U>(static_cast<U>(x[j * inner]) ^ turn);
                if (key < limit) found[count++] = {key, j};
            }
        }
        std::sort(found, found + k);
        auto* values = static_cast<T*>(arguments[1]) + outer * k * inner + i;
        auto* indices = static_cast<int64_t*>(arguments[2]) + outer * k * inner + i;
        for (int64_t n = 0; n < k; ++n) {
            values[n * inner] = x[found[n].index * inner];
            indices[n * inner] = found[n].index;
        }
    }
    static double row_cost(int64_t size, int64_t k) {
        auto comparisons = static_cast<double>(k) * std::log2(static_cast<double>(k) + 1);
        return static_cast<double>(size) * kNsPerElement + comparisons * kNsPerComparison;
    }

public:
    TopKIntegers(TopKInfo const& info, BindArgs const& args)
        : split_(args.inputs[0]->dims, info.axis),
          k_(args.outputs[0]->dims[info.axis]),
          smallest_(!info.largest),
          threads_(args.threads) {
        visit_numeric(args.inputs[0]->dtype, [&](auto tag) {
            using T = typename decltype(tag)::type;
            if constexpr (std::is_integral_v<T>) body_ = select<T>;
        });
    }
    static MaybeTask make(TopKInfo const& info, BindArgs const& args) {
        auto size = args.inputs[0]->dims[info.axis], k = args.outputs[0]->dims[info.axis];
        if (k < 0 || k > size)
            return reject("k is " + std::to_string(k) + ", expected 0 to " + std::to_string(size) +
                          " (the size of axis " + std::to_string(info.axis) + ")");
        return std::unique_ptr<runtime::Task>(new TopKIntegers(info, args));
    }
    static Result<double, Rejection> cost(TopKInfo const& info, BindArgs const& args) {
        auto size = args.inputs[0]->dims[info.axis];
        auto rows = args.inputs[0]->count() / std::max<int64_t>(1, size);
        return static_cast<double>(rows) * row_cost(size, args.outputs[0]->dims[info.axis]);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto rows = k_ ? split_.outer * split_.inner : 0;
        auto chunks = chunks_of(rows, row_cost(split_.size, k_), threads_);
        context.pool.parallel_for(chunks, [&](int64_t c, int worker) {
            auto* scratch = context.scratch_of(worker);
            for (auto r = rows * c / chunks; r < rows * (c + 1) / chunks; ++r) body_(*this, arguments, r, scratch);
        });
    }
};

}  // namespace

MaybeKernel make_top_k_integers(TopKInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (!is_integer(dtype) || !is_any_numeric(dtype))
        return reject("x is " + std::string(refactor::name_of(dtype)) + ", expected integers of whole bytes");
    return std::unique_ptr<Kernel>(new InfoKernel<TopKInfo, TopKIntegers>(id_of("top_k", "integers", dtype), info));
}

}  // namespace refactor::kernel
