#include "common/thread_pool.h"
#include "kernel/ops/trees.h"
#include "top_k/top_k.h"
#include "top_k/top_k_scan.h"

#include <algorithm>
#include <cmath>

namespace refactor::kernel {

#if RG_X86
namespace {

/// A row is read at 30 bytes a ns, at times twice; its first limit takes a hundred ns.
constexpr double kNsPerElement = 0.25, kNsPerRow = 100;
/// One of the comparisons, about log2 k for each of k elements, that sort them: half of them are foreseen, the others
/// cost 15 cycles, and there are as many that select them.
constexpr double kNsPerComparison = 6;
/// Candidates are indices of 31 bits.
constexpr int64_t kMost = INT32_MAX;

/// Reads a row once (twice if k is small), keeps what may be among the first k, and sorts that.
class TopKFilterTask final : public runtime::Task {
    AxisSplit split_;
    int64_t k_;
    bool smallest_;
    int threads_;

    /// Number and index of a candidate: less for what comes first.
    using Key = uint64_t;
    struct Scratch {
        Key* keys;       ///< [capacity]
        int32_t* found;  ///< [capacity]
        float* row;      ///< of an axis that is not the last
    };
    int64_t capacity() const { return 2 * k_ + 64; }
    size_t scratch_bytes() const override {
        auto row = split_.inner == 1 ? 0 : split_.size;
        return (static_cast<size_t>(capacity() * 12 + row * 4) + 63) / 64 * 64;
    }

    Key key_of(float const* x, int64_t index) const {
        auto ascending = tree_key(x[index]);
        return Key{smallest_ ? ascending : ~ascending} << 32 | static_cast<uint32_t>(index);
    }
    static int64_t index_of(Key key) { return static_cast<int64_t>(key & UINT32_MAX); }

    /// The first k of the row at the beginning of `s.keys`, in order.
    void select(float const* x, Scratch const& s) const {
        TopKFilter filter{smallest_, false, 0};
        int64_t count = 0, next = 0;
        auto keep = [&] {
            if (count <= k_) return;
            std::nth_element(s.keys, s.keys + k_ - 1, s.keys + count);
            count = k_;
            auto last = x[index_of(s.keys[k_ - 1])];
            // What follows comes behind its equals.
            filter.limit = smallest_ ? -last : last, filter.strict = true;
        };
        if (k_ <= kTopKLanes && split_.size >= 2 * kTopKLanes) {
            filter.limit = top_k_limit_avx2(x, split_.size, k_, smallest_);
        } else {
            for (; next < std::min(split_.size, capacity()); ++next) s.keys[count++] = key_of(x, next);
            keep();
        }
        while (next < split_.size) {
            int64_t found = 0;
            next = top_k_scan_avx2(x, next, split_.size, filter, s.found, capacity() - count, found);
            for (int64_t i = 0; i < found; ++i) s.keys[count++] = key_of(x, s.found[i]);
            keep();
        }
        std::sort(s.keys, s.keys + k_);
    }

    static double row_cost(int64_t size, int64_t k) {
        auto comparisons = static_cast<double>(k) * std::log2(static_cast<double>(k) + 1);
        return kNsPerRow + static_cast<double>(size) * kNsPerElement + comparisons * kNsPerComparison;
    }

public:
    TopKFilterTask(TopKInfo const& info, BindArgs const& args)
        : split_(args.inputs[0]->dims, info.axis),
          k_(args.outputs[0]->dims[info.axis]),
          smallest_(!info.largest),
          threads_(args.threads) {}

    static MaybeTask make(TopKInfo const& info, BindArgs const& args) {
        auto size = args.inputs[0]->dims[info.axis], k = args.outputs[0]->dims[info.axis];
        auto expected = [&](std::string_view what, int64_t from, int64_t to) {
            return std::string(what) + ", expected " + std::to_string(from) + " to " + std::to_string(to);
        };
        if (k < 0 || k > size) return reject(expected("k is " + std::to_string(k), 0, size));
        if (size > kMost) return reject(expected("the axis has " + std::to_string(size) + " elements", 0, kMost));
        return std::unique_ptr<runtime::Task>(new TopKFilterTask(info, args));
    }
    static Result<double, Rejection> cost(TopKInfo const& info, BindArgs const& args) {
        auto k = args.outputs[0]->dims[info.axis];
        auto rows = args.inputs[0]->count() / std::max<int64_t>(1, args.inputs[0]->dims[info.axis]);
        return static_cast<double>(rows) * row_cost(args.inputs[0]->dims[info.axis], k);
    }

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto [outer, size, inner] = split_;
        auto const* input = static_cast<float const*>(arguments[0]);
        auto* values = static_cast<float*>(arguments[1]);
        auto* indices = static_cast<int64_t*>(arguments[2]);
        auto rows = k_ ? outer * inner : 0;
        auto chunks = chunks_of(rows, row_cost(size, k_), threads_);
        context.pool.parallel_for(chunks, [&](int64_t c, int worker) {
            auto* memory = context.scratch_of(worker);
            Scratch s{reinterpret_cast<Key*>(memory), reinterpret_cast<int32_t*>(memory + capacity() * 8),
                      reinterpret_cast<float*>(memory + capacity() * 12)};
            for (auto r = rows * c / chunks; r < rows * (c + 1) / chunks; ++r) {
                auto o = r / inner, i = r % inner;
                auto const* x = input + o * size * inner + i;
                if (inner > 1) {
                    for (int64_t j = 0; j < size; ++j) s.row[j] = x[j * inner];
                    x = s.row;
                }
                select(x, s);
                auto at = o * k_ * inner + i;
                for (int64_t j = 0; j < k_; ++j, at += inner)
                    indices[at] = index_of(s.keys[j]), values[at] = x[indices[at]];
            }
        });
    }
};

}  // namespace
#endif

MaybeKernel make_top_k_filter(TopKInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (dtype != DataType::F32) return reject("x is " + std::string(refactor::name_of(dtype)) + ", expected f32");
#if RG_X86
    if (request.isa >= Isa::Avx2)
        return std::unique_ptr<Kernel>(
            new InfoKernel<TopKInfo, TopKFilterTask>(id_of("top_k", "filter", dtype, Isa::Avx2), info));
#endif
    return reject("needs avx2, allowed is " + std::string(name_of(request.isa)));
}

}  // namespace refactor::kernel
