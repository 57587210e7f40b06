#include "top_k/top_k_lanes.h"

#include "common/thread_pool.h"
#include "reduce/turned_sets.h"
#include "top_k/top_k.h"

#include <algorithm>
#include <cmath>

namespace refactor::kernel {

#if RG_X86
namespace {

/// Of one column among eight: a row's key; and half of the steps, 6 cycles each, that bring it to the front of a list.
constexpr double kNsPerElement = 0.3, kNsPerPlace = 0.1;
/// Rows behind each other are turned if they are this short and as many as a vector has lanes.
constexpr int64_t kLongestTurned = 256;
/// Lists of 16 KiB stay in L1.
constexpr int64_t kMost = 256;
/// The same of rows, which need not be gathered to be sorted.
constexpr int64_t kMostOfRows = 32;

/// Keeps the first k of eight columns in order, one in each lane, while their rows are read.
class TopKLanesTask final : public runtime::Task {
    AxisSplit split_;
    int64_t k_;
    bool smallest_, is_turned_;
    TurnedSets sets_, index_sets_;    // of values, of indices
    int64_t tiles_, items_, chunks_;  // of an outer index, of all: eight columns or some turned rows

    size_t lists_bytes() const { return static_cast<size_t>(2 * k_ * kTopKColumns) * sizeof(int32_t); }
    static bool is_turned(AxisSplit const& split) {
        auto columns = split.outer * split.inner;
        return split.inner < kTopKColumns && columns >= kTopKColumns && split.size * split.inner <= kLongestTurned;
    }
    void tile(TopKColumns columns, int64_t item) const {
        auto [_, size, inner] = split_;
        auto outer = item / tiles_, column = item % tiles_ * kTopKColumns;
        columns.x += outer * size * inner + column;
        columns.values += outer * k_ * inner + column, columns.indices += outer * k_ * inner + column;
        columns.columns = std::min(kTopKColumns, inner - column);
        columns.stride = columns.result_stride = inner;
        top_k_columns_avx2(columns);
    }
    void turned_rows(TopKColumns columns, int64_t item, std::byte* scratch) const {
        auto [outer, size, inner] = split_;
        auto first = item * sets_.most(), sets = std::min(sets_.most(), outer - first), all = inner * sets;
        auto* turned = reinterpret_cast<float*>(scratch);
        auto* values = reinterpret_cast<float*>(scratch + sets_.turned_bytes());
        auto* indices = reinterpret_cast<int64_t*>(scratch + sets_.turned_bytes() + sets_.result_bytes());
        auto const to = columns;
        sets_.turn(columns.x + first * size * inner, sets, turned);
        columns.stride = columns.result_stride = all;
        for (int64_t i = 0; i < all; i += kTopKColumns) {
            columns.x = turned + i, columns.values = values + i, columns.indices = indices + i;
            columns.columns = std::min(kTopKColumns, all - i);
            top_k_columns_avx2(columns);
        }
        sets_.turn_back(values, sets, to.values + first * k_ * inner);
        index_sets_.turn_back(indices, sets, to.indices + first * k_ * inner);
    }
    /// Of a column: few rows come in front of others once the lists hold what is likely to stay.
    static double column_cost(int64_t size, int64_t k) {
        auto n = static_cast<double>(size), filled = static_cast<double>(k * kTopKColumns);
        auto inserted = n <= filled ? n : filled * (1 + std::log(n / filled));
        return n * kNsPerElement + inserted * static_cast<double>(k) * kNsPerPlace;
    }

public:
    TopKLanesTask(TopKInfo const& info, BindArgs const& args)
        : split_(args.inputs[0]->dims, info.axis),
          k_(args.outputs[0]->dims[info.axis]),
          smallest_(!info.largest),
          is_turned_(is_turned(split_)) {
        auto [outer, size, inner] = split_;
        tiles_ = (inner + kTopKColumns - 1) / kTopKColumns, items_ = k_ ? outer * tiles_ : 0;
        auto columns = std::min(inner, kTopKColumns);
        if (is_turned_ && k_) {
            sets_ = {size * inner, k_ * inner, sizeof(float), sizeof(float), Isa::Avx2};
            index_sets_ = {size * inner, k_ * inner, sizeof(float), sizeof(int64_t), Isa::Avx2};
            items_ = (outer + sets_.most() - 1) / sets_.most(), columns = sets_.most() * inner;
        }
        chunks_ = chunks_of(items_, static_cast<double>(columns) * column_cost(size, k_), args.threads);
    }
    static std::string why_not(TopKInfo const& info, BindArgs const& args) {
        AxisSplit split(args.inputs[0]->dims, info.axis);
        auto k = args.outputs[0]->dims[info.axis], most = std::min(split.size, split.inner == 1 ? kMostOfRows : kMost);
        if (k < 0 || k > most) return "k is " + std::to_string(k) + ", expected 0 to " + std::to_string(most);
        if (split.size > INT32_MAX)
            return "the axis has " + std::to_string(split.size) + " elements, expected 0 to " +
                   std::to_string(INT32_MAX);
        if (split.inner == 1 && !is_turned(split)) return "there is one row, or long ones";
        return {};
    }
    static MaybeTask make(TopKInfo const& info, BindArgs const& args) {
        if (auto why = why_not(info, args); !why.empty()) return reject(why);
        return std::unique_ptr<runtime::Task>(new TopKLanesTask(info, args));
    }
    static Result<double, Rejection> cost(TopKInfo const& info, BindArgs const& args) {
        if (auto why = why_not(info, args); !why.empty()) return reject(why);
        auto size = args.inputs[0]->dims[info.axis];
        auto columns = args.inputs[0]->count() / std::max<int64_t>(1, size);
        return static_cast<double>(columns) * column_cost(size, args.outputs[0]->dims[info.axis]);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        TopKColumns columns{static_cast<float const*>(arguments[0]),
                            static_cast<float*>(arguments[1]),
                            static_cast<int64_t*>(arguments[2]),
                            split_.size,
                            k_,
                            0,
                            0,
                            0,
                            smallest_,
                            nullptr};
        context.pool.parallel_for(chunks_, [&](int64_t c, int worker) {
            auto* scratch = context.scratch_of(worker);
            auto mine = columns;
            mine.lists = reinterpret_cast<int32_t*>(scratch);
            for (auto i = items_ * c / chunks_; i < items_ * (c + 1) / chunks_; ++i)
                if (is_turned_)
                    turned_rows(mine, i, scratch + (lists_bytes() + 63) / 64 * 64);
                else
                    tile(mine, i);
        });
    }
    size_t scratch_bytes() const override {
        auto lists = (lists_bytes() + 63) / 64 * 64;
        return is_turned_ ? lists + sets_.turned_bytes() + sets_.result_bytes() + index_sets_.result_bytes() : lists;
    }
};

}  // namespace
#endif

MaybeKernel make_top_k_lanes(TopKInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype;
    if (dtype != DataType::F32) return reject("x is " + std::string(refactor::name_of(dtype)) + ", expected f32");
#if RG_X86
    if (request.isa >= Isa::Avx2)
        return std::unique_ptr<Kernel>(
            new InfoKernel<TopKInfo, TopKLanesTask>(id_of("top_k", "lanes", dtype, Isa::Avx2), info));
#endif
    return reject("needs avx2, allowed is " + std::string(name_of(request.isa)));
}

}  // namespace refactor::kernel
