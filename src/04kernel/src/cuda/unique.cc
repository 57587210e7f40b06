// Unique: slices are ordered, the first of every run of equal ones begins a group.
#include "cuda/device_selects.h"
#include "cuda/selection.h"
#include "kernel/ops/reduce.h"
#include "mem_manager/device.h"

namespace refactor::kernel::cuda {

using runtime::Value;

namespace {

constexpr char const* kSlices = R"cuda(
struct rg_unique_args { rg_u64 x, order, starts, ranks, target, counts, count, outer, inner, groups; };
// NaN is equal to NaN, and last.
RG_FN bool rg_before(Real a, Real b) {
    if constexpr (rg_real<Real>) return a < b || (b != b && a == a);
    return a < b;
}
RG_FN int rg_compare(rg_unique_args const& a, rg_u64 p, rg_u64 q) {
    Stored const* x = (Stored const*)a.x;
    for (rg_u64 o = 0; o < a.outer; ++o)
        for (rg_u64 i = 0; i < a.inner; ++i) {
            const Real left = rg_load(x[(o * a.count + p) * a.inner + i]);
            const Real right = rg_load(x[(o * a.count + q) * a.inner + i]);
            if (rg_before(left, right)) return -1;
            if (rg_before(right, left)) return 1;
        }
    return 0;
}
)cuda";

// Merges neighbouring runs of `groups` slices each, which are ordered: the place of a slice is its own in its run and
// that which it would have in the other. No order yet: that of the slices themselves.
constexpr char const* kMergeBody = R"cuda(
RG_GLOBAL rg_unique_merge(rg_unique_args a) {
    RG_WAIT();
    rg_u64 const* order = (rg_u64 const*)a.order;
    const rg_u64 length = a.groups;
    RG_FOR(rg_u64, p, a.count) {
        const rg_u64 run = p / length, slice = order ? order[p] : p;
        const bool right = run & 1;
        const rg_u64 other = (right ? run - 1 : run + 1) * length, end = other + length;
        rg_u64 low = other < a.count ? other : a.count, high = end < a.count ? end : a.count;
        const rg_u64 begin = low;
        while (low < high) {
            const rg_u64 middle = (low + high) / 2;
            const int compared = rg_compare(a, order ? order[middle] : middle, slice);
            if (compared < 0 || (right && compared == 0)) low = middle + 1;
            else high = middle;
        }
        ((rg_u64*)a.target)[(run - right) * length + p % length + low - begin] = slice;
    }
}
)cuda";

constexpr char const* kFlagsBody = R"cuda(
RG_GLOBAL rg_unique_flags(rg_unique_args a) {
    RG_WAIT();
    rg_u64 const* order = (rg_u64 const*)a.order;
    RG_FOR(rg_u64, p, a.count)
        ((unsigned char*)a.target)[p] = p == 0 || rg_compare(a, order[p - 1], order[p]) != 0;
}
)cuda";

// Of each group, where it is to be: its first slice and how many it has.
constexpr char const* kGroupsBody = R"cuda(
RG_GLOBAL rg_unique_groups(rg_unique_args a) {
    RG_WAIT();
    rg_u64 const* starts = (rg_u64 const*)a.starts;
    RG_FOR(rg_u64, g, a.groups) {
        const rg_u64 at = a.ranks ? ((rg_u64 const*)a.ranks)[g] : g;
        ((rg_u64*)a.target)[at] = ((rg_u64 const*)a.order)[starts[g]];
        if (a.counts) ((rg_u64*)a.counts)[at] = (g + 1 < a.groups ? starts[g + 1] : a.count) - starts[g];
    }
}
)cuda";

constexpr char const* kRanksBody = R"cuda(
RG_GLOBAL rg_unique_ranks(rg_unique_args a) {
    RG_WAIT();
    RG_FOR(rg_u64, i, a.groups) ((rg_u64*)a.target)[((rg_u64 const*)a.ranks)[i]] = i;
}
)cuda";

// Of each slice, the number of its group: the last one that starts at its place or before.
constexpr char const* kInverseBody = R"cuda(
RG_GLOBAL rg_unique_inverse(rg_unique_args a) {
    RG_WAIT();
    rg_u64 const* starts = (rg_u64 const*)a.starts;
    RG_FOR(rg_u64, p, a.count) {
        rg_u64 low = 0, high = a.groups;
        while (high - low > 1) {
            const rg_u64 middle = (low + high) / 2;
            if (starts[middle] <= p) low = middle;
            else high = middle;
        }
        ((rg_u64*)a.target)[((rg_u64 const*)a.order)[p]] = a.ranks ? ((rg_u64 const*)a.ranks)[low] : low;
    }
}
)cuda";

class Unique final : public DeviceProcedure {
    std::optional<int64_t> axis_;
    bool sorted_;
    DataType compared_;  ///< what x is compared as
    Taker taker_;
    std::unique_ptr<Kernel> sort_, sort_places_;

    struct Job {
        DeviceCall& call;
        void const* x;
        int64_t count, outer, inner;
        int64_t* order;
        int64_t groups = 0;
        int64_t* starts = nullptr;
    };

    /// `counts` may be null.
    void start(Job const& job, char const* name, char const* body, int64_t items, int64_t const* ranks, void* target,
               int64_t* counts = nullptr) const {
        GeneratedLaunch launch;
        launch.function = code_.function(name, number_kind(compared_) + kSlices, body);
        launch.blocks = blocks_for(items, kBlockThreads);
        launch.on({0, 1, 2, 3, 4, 5});
        launch.add(job.count), launch.add(job.outer), launch.add(job.inner), launch.add(job.groups);
        job.call.launch(launch, {job.x, job.order, job.starts, ranks, target, counts});
    }

    /// Sets `order`; equal slices by position.
    void sort(Job& job) const {
        if (job.outer * job.inner != 1) {
            int64_t* buffers[]{job.order, job.call.scratch_of<int64_t>(job.count)};
            job.order = nullptr;
            int64_t step = 0;
            do {
                auto* to = buffers[step % 2];
                job.groups = int64_t{1} << step;
                start(job, "rg_unique_merge", kMergeBody, job.count, nullptr, to);
                job.order = to;
            } while (int64_t{1} << ++step < job.count);
            return;
        }
        auto type = row_major(compared_, {job.count});
        auto* values = job.call.scratch(job.count * bits_of(compared_) / 8);
        job.call.run(*sort_, {{type, job.x}}, {{type, values}, {row_major(DataType::I64, {job.count}), job.order}});
    }

    /// Where each group is to be if they come in the order of their first slices.
    int64_t* ranks_of(Job const& job) const {
        auto type = row_major(DataType::I64, {job.groups});
        auto *firsts = job.call.scratch_of<int64_t>(job.groups), *values = job.call.scratch_of<int64_t>(job.groups);
        auto *places = job.call.scratch_of<int64_t>(job.groups), *ranks = job.call.scratch_of<int64_t>(job.groups);
        start(job, "rg_unique_groups", kGroupsBody, job.groups, nullptr, firsts);
        job.call.run(*sort_places_, {{type, firsts}}, {{type, values}, {type, places}});
        start(job, "rg_unique_ranks", kRanksBody, job.groups, places, ranks);
        return ranks;
    }

protected:
    void compute(DeviceCall& call, Inputs inputs, Outputs outputs) const override {
        auto const& x = *inputs[0];
        Job job{call, call.here(x), x.count(), 1, 1, nullptr};
        Dims dims{x.count()};
        size_t axis = 0;
        if (axis_) {
            dims = x.dims, axis = static_cast<size_t>(*axis_ < 0 ? *axis_ + static_cast<int64_t>(dims.size()) : *axis_);
            job.count = dims[axis];
            for (size_t i = 0; i < dims.size(); ++i)
                if (i != axis) (i < axis ? job.outer : job.inner) *= dims[i];
        }
        job.order = call.scratch_of<int64_t>(job.count);
        auto* flags = call.scratch_of<uint8_t>(job.count);
        if (job.count) sort(job), start(job, "rg_unique_flags", kFlagsBody, job.count, nullptr, flags);
        Selection selection(call, code_, flags, job.count, 1);
        job.groups = selection.total(), job.starts = call.scratch_of<int64_t>(job.groups);
        selection.write_positions(job.starts);
        auto* ranks = sorted_ || !job.groups ? nullptr : ranks_of(job);
        auto numbers = [&](size_t i, int64_t count) {
            bool wanted = i < outputs.size();
            return static_cast<int64_t*>(wanted ? call.make(outputs[i], DataType::I64, {count}) : nullptr);
        };
        auto *firsts = numbers(1, job.groups), *inverse = numbers(2, job.count), *counts = numbers(3, job.groups);
        if (!firsts) firsts = call.scratch_of<int64_t>(job.groups);
        if (job.groups) start(job, "rg_unique_groups", kGroupsBody, job.groups, ranks, firsts, counts);
        if (job.groups && inverse) start(job, "rg_unique_inverse", kInverseBody, job.count, ranks, inverse);
        dims[axis] = job.groups;
        auto* y = call.make(outputs[0], x.dtype, dims);
        taker_.take(call, {row_major(x.dtype, {job.outer, job.count, job.inner}), job.x},
                    {row_major(DataType::I64, {job.groups}), firsts},
                    {row_major(x.dtype, {job.outer, job.groups, job.inner}), y});
    }

public:
    Unique(std::string id, Library const& library, std::optional<int64_t> axis, bool sorted, DataType compared,
           Taker taker)
        : DeviceProcedure(std::move(id), library),
          axis_(axis),
          sorted_(sorted),
          compared_(compared),
          taker_(std::move(taker)),
          sort_(sorter(library.device(), compared)),
          sort_places_(sorter(library.device(), DataType::I64)) {}

    bool can_sort() const { return sort_ && sort_places_; }

    /// In ascending order, equal ones by position.
    static std::unique_ptr<Kernel> sorter(mem_manager::Device& place, DataType dtype) {
        TopKInfo info;
        info.largest = false;
        return kernel_for(place, info, {row_major(dtype, {-1})},
                          {row_major(dtype, {-1}), row_major(DataType::I64, {-1})});
    }
};

}  // namespace

ProcedurePtr unique_nvrtc(mem_manager::Device& place, DataType x, std::optional<int64_t> axis, bool sorted) {
    auto library = Library::on(place);
    auto compared = x == DataType::Bool ? DataType::U8 : x;
    bool known = is_integer(compared) || compared == DataType::F16 || compared == DataType::BF16 ||
                 compared == DataType::F32 || compared == DataType::F64;
    if (!library || !known || bits_of(x) < 8) return nullptr;
    Taker taker(place, x);
    if (!taker) return nullptr;
    auto id = "unique:nvidia:nvrtc:" + std::string(name_of(x));
    auto made = std::make_shared<Unique>(std::move(id), *library, axis, sorted, compared, std::move(taker));
    return made->can_sort() ? made : nullptr;
}

}  // namespace refactor::kernel::cuda
