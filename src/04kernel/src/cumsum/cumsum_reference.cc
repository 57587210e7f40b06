#include "common/thread_pool.h"
#include "cumsum/cumsum.h"
#include "cumsum/strip.h"
#include "reduce/scalar_type.h"
#include "reduce/turned_sets.h"

#include <algorithm>

namespace refactor::kernel {
namespace {

constexpr double kNsPerElement = 1.5;
/// Neighbouring sums that are carried together: their additions are independent and overlap.
constexpr int64_t kStrip = kCumSumStrip;
/// Neighbours that a thread has at least, and multiples of: two lines of f32.
constexpr int64_t kShare = 32;
/// Sums of rows of this many neighbours do not fill vectors: sets of so few elements are turned, if there are enough.
constexpr int64_t kFewNeighbours = 16, kTurnedSet = 256, kFewestSets = 16;

template <class T>
constexpr bool kHasStrips = std::is_same_v<T, float> || std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>;

template <Isa isa>
class CumSumTask final : public runtime::Task {
    using Body = void (*)(CumSumTask const&, void const*, void*, int64_t, std::byte*);
    CumSumInfo info_;
    AxisSplit split_;
    int64_t strip_;                    ///< neighbours of a strip at most
    int64_t strips_, items_, chunks_;  ///< of one outer index, of all: strips or some turned sets
    bool is_turned_ = false;
    TurnedSets sets_;
    Body body_ = nullptr;

    /// Adds `count` neighbours to their totals. Y is X or apart from it.
    template <class T, bool product, bool exclusive>
    [[gnu::always_inline]] static inline void add_step(T const* x, T* y, Wide<T>* totals, int64_t count) {
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) {
            auto value = widen(x[i]);
            auto next = product ? multiply(totals[i], value) : add(totals[i], value);
            y[i] = narrow<T>(exclusive ? totals[i] : next);
            totals[i] = next;
        }
    }

    /// `size` steps of `count` neighbours; the lanes of one loop are a constant, which compilers need for vectors.
    template <class T, bool product, bool exclusive>
    static void carry(T const* x, T* y, int64_t size, int64_t step, int64_t count) {
#if RG_X86
        if constexpr (isa != Isa::Scalar && kHasStrips<T> && !product) {
            CumSumStrip<T> strip{x, y, size, step, count, exclusive};
            return isa == Isa::Avx512 ? cumsum_strip_avx512(strip) : cumsum_strip_avx2(strip);
        }
#endif
        constexpr int64_t kLanes = 16;
        Wide<T> totals[kStrip];
        std::fill_n(totals, count, static_cast<Wide<T>>(product ? 1 : 0));
        for (int64_t k = 0; k < size; ++k, x += step, y += step) {
            int64_t i = 0;
            for (; i + kLanes <= count; i += kLanes) add_step<T, product, exclusive>(x + i, y + i, totals + i, kLanes);
            add_step<T, product, exclusive>(x + i, y + i, totals + i, count - i);
        }
    }

    template <class T, bool product, bool exclusive>
    static void accumulate(CumSumTask const& self, void const* source, void* target, int64_t strip, std::byte*) {
        auto [_, size, inner] = self.split_;
        auto outer = strip / self.strips_, column = strip % self.strips_ * self.strip_;
        auto count = std::min(self.strip_, inner - column), step = self.info_.reverse ? -inner : inner;
        auto first = outer * size * inner + (self.info_.reverse ? (size - 1) * inner : 0) + column;
        auto const* x = static_cast<T const*>(source) + first;
        auto* y = static_cast<T*>(target) + first;
        if (count > 1) return carry<T, product, exclusive>(x, y, size, step, count);
        auto total = static_cast<Wide<T>>(product ? 1 : 0);
        for (int64_t k = 0; k < size; ++k, x += step, y += step) add_step<T, product, exclusive>(x, y, &total, 1);
    }

    /// Some sets: neighbours of all of them are side by side once they are turned.
    template <class T, bool product, bool exclusive>
    static void accumulate_turned(CumSumTask const& self, void const* source, void* target, int64_t item,
                                  std::byte* scratch) {
        auto [outer, size, inner] = self.split_;
        auto first = item * self.sets_.most(), sets = std::min(self.sets_.most(), outer - first);
        self.sets_.turn(static_cast<T const*>(source) + first * size * inner, sets, scratch);
        auto columns = inner * sets, step = self.info_.reverse ? -columns : columns;
        auto* x = reinterpret_cast<T*>(scratch) + (self.info_.reverse ? (size - 1) * columns : 0);
        for (int64_t i = 0; i < columns; i += kStrip)
            carry<T, product, exclusive>(x + i, x + i, size, step, std::min(kStrip, columns - i));
        self.sets_.turn_back(scratch, sets, static_cast<T*>(target) + first * size * inner);
    }
    template <class T, bool product, bool exclusive>
    Body body_of() const {
        return is_turned_ ? accumulate_turned<T, product, exclusive> : accumulate<T, product, exclusive>;
    }

    /// Narrow enough for all threads to have one, but not below a line or two.
    static int64_t strip_of(AxisSplit const& split, int threads) {
        auto shares = (threads + split.outer - 1) / std::max<int64_t>(1, split.outer);
        auto wanted = (split.inner + shares * kShare - 1) / std::max<int64_t>(1, shares * kShare) * kShare;
        return std::clamp(wanted, kShare, kStrip);
    }

public:
    CumSumTask(CumSumInfo const& info, BindArgs const& args)
        : info_(info),
          split_(args.inputs[0]->dims, info.axis),
          strip_(strip_of(split_, args.threads)),
          strips_((split_.inner + strip_ - 1) / strip_) {
        auto [outer, size, inner] = split_;
        int64_t const length = size * inner, bytes = bits_of(args.inputs[0]->dtype) / 8;
        is_turned_ =
            isa != Isa::Scalar && inner < kFewNeighbours && size > 1 && length <= kTurnedSet && outer >= kFewestSets;
        if (is_turned_) sets_ = {length, length, bytes, bytes, isa};
        items_ = is_turned_ ? (outer + sets_.most() - 1) / sets_.most() : outer * strips_;
        auto elements = is_turned_ ? sets_.most() * length : size * std::min(strip_, inner);
        chunks_ = chunks_of(items_, static_cast<double>(elements) * ns_per_element(), args.threads);
        visit_numeric(args.inputs[0]->dtype, [&](auto tag) {
            using T = typename decltype(tag)::type;
            if (info.exclusive)
                body_ = info.product ? body_of<T, true, true>() : body_of<T, false, true>();
            else
                body_ = info.product ? body_of<T, true, false>() : body_of<T, false, false>();
        });
    }
    static double ns_per_element() {
        return isa == Isa::Avx512 ? kNsPerElement / 5 : isa == Isa::Avx2 ? kNsPerElement / 4 : kNsPerElement;
    }
    static MaybeTask make(CumSumInfo const& info, BindArgs const& args) {
        return std::unique_ptr<runtime::Task>(new CumSumTask(info, args));
    }
    static Result<double, Rejection> cost(CumSumInfo const&, BindArgs const& args) {
        return static_cast<double>(args.inputs[0]->count()) * ns_per_element();
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        context.pool.parallel_for(chunks_, [&](int64_t c, int worker) {
            auto* scratch = is_turned_ ? context.scratch_of(worker) : nullptr;
            for (auto i = items_ * c / chunks_; i < items_ * (c + 1) / chunks_; ++i)
                body_(*this, arguments[0], arguments[1], i, scratch);
        });
    }
    size_t scratch_bytes() const override { return is_turned_ ? sets_.turned_bytes() : 0; }
    uint64_t in_place_inputs() const override { return 1; }
    double operations() const override { return static_cast<double>(split_.outer * split_.size * split_.inner); }
};

}  // namespace

#if RG_X86
namespace {

template <Isa isa>
MaybeKernel make_strips(CumSumInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    if (auto why = why_not_isa(request, isa); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (dtype != DataType::F32 && dtype != DataType::I32 && dtype != DataType::I64)
        return reject("dtype " + std::string(refactor::name_of(dtype)) + ", expected f32, i32 or i64");
    if (info.product) return reject("adds, does not multiply");
    return std::unique_ptr<Kernel>(
        new InfoKernel<CumSumInfo, CumSumTask<isa>>(id_of("cumsum", "strips", dtype, isa), info));
}

}  // namespace

MaybeKernel make_cumsum_strips_avx512(CumSumInfo const& info, Request const& request) {
    return make_strips<Isa::Avx512>(info, request);
}
MaybeKernel make_cumsum_strips_avx2(CumSumInfo const& info, Request const& request) {
    return make_strips<Isa::Avx2>(info, request);
}
#endif

MaybeKernel make_cumsum_reference(CumSumInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (!is_any_numeric(dtype)) return reject("dtype " + std::string(refactor::name_of(dtype)) + " has no sum");
    return std::unique_ptr<Kernel>(
        new InfoKernel<CumSumInfo, CumSumTask<Isa::Scalar>>(id_of("cumsum", "reference", dtype), info));
}

}  // namespace refactor::kernel
