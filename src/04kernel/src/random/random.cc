#include "random/random.h"

#include "common/error.h"
#include "common/thread_pool.h"
#include "cuda/kernels.h"
#include "random/philox.h"
#include "reduce/scalar_type.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numbers>

namespace refactor::kernel {
namespace {

/// Runs begun, shared by all plans of a kernel.
using Runs = std::shared_ptr<std::atomic<uint64_t>>;

std::string exact(double x) {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", x);
    return text;
}

/// A kernel whose tasks count their runs together.
template <class Info, class Bound>
class RandomKernel final : public Kernel {
    std::string id_;
    Info info_;
    Runs runs_ = std::make_shared<std::atomic<uint64_t>>(0);

public:
    RandomKernel(std::string id, Info info) : id_(std::move(id)), info_(std::move(info)) {}
    std::string id() const override { return id_; }
    MaybeTask bind(BindArgs const& args) const override { return Bound::make(info_, args, runs_); }
};

class RandomTask final : public runtime::Task {
    /// Elements of a pair of numbers at a time.
    using Body = void (*)(RandomTask const&, void*, int64_t first, int64_t last, uint64_t run);
    static constexpr double kNsPerPair = 25;

    RandomInfo info_;
    Runs runs_;
    int64_t count_;
    int threads_;
    Body body_ = nullptr;

    template <class T>
    T value_of(double x) const {
        auto y = narrow<T>(x);
        // Rounding may reach the upper bound, which is excluded.
        if (info_.distribution == Distribution::Uniform && widen(y) >= info_.b && info_.a < info_.b)
            return narrow<T>(info_.a);
        return y;
    }
    template <class T>
    static void fill(RandomTask const& t, void* output, int64_t first, int64_t last, uint64_t run) {
        auto* y = static_cast<T*>(output);
        for (auto pair = first; pair < last; ++pair) {
            Philox random(t.info_.seed, static_cast<uint64_t>(pair), run);
            double u[2]{random.uniform(0), random.uniform(1)};
            if (t.info_.distribution == Distribution::Normal) {
                // Box and Muller; 1 - u is never zero.
                auto radius = std::sqrt(-2 * std::log(1 - u[0])), angle = 2 * std::numbers::pi * u[1];
                u[0] = t.info_.a + t.info_.b * radius * std::cos(angle);
                u[1] = t.info_.a + t.info_.b * radius * std::sin(angle);
            } else {
                for (auto& x : u) x = t.info_.a + (t.info_.b - t.info_.a) * x;
            }
            for (int i = 0; i < 2 && 2 * pair + i < t.count_; ++i) y[2 * pair + i] = t.value_of<T>(u[i]);
        }
    }

public:
    RandomTask(RandomInfo const& info, BindArgs const& args, Runs runs)
        : info_(info), runs_(std::move(runs)), count_(args.outputs[0]->count()), threads_(args.threads) {
        visit_float(args.outputs[0]->dtype, [&](auto tag) { body_ = fill<typename decltype(tag)::type>; });
    }
    static MaybeTask make(RandomInfo const& info, BindArgs const& args, Runs const& runs) {
        return std::unique_ptr<runtime::Task>(new RandomTask(info, args, runs));
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto number = runs_->fetch_add(1, std::memory_order_relaxed);
        auto pairs = (count_ + 1) / 2, chunks = chunks_of(pairs, kNsPerPair, threads_);
        context.pool.parallel_for(chunks, [&](int64_t c, int) {
            body_(*this, arguments[0], pairs * c / chunks, pairs * (c + 1) / chunks, number);
        });
    }
};

class MultinomialTask final : public runtime::Task {
    using Weights = void (*)(void const* x, int64_t row, int64_t classes, double* sums);
    MultinomialInfo info_;
    Runs runs_;
    int64_t rows_, classes_, samples_;
    bool wide_;
    int threads_;
    Weights weights_ = nullptr;

    /// Cumulative weights of a row, relative to its largest.
    template <class T>
    static void accumulate(void const* input, int64_t row, int64_t classes, double* sums) {
        auto const* x = static_cast<T const*>(input) + row * classes;
        double most = -INFINITY, total = 0;
        for (int64_t k = 0; k < classes; ++k) most = std::max<double>(most, widen(x[k]));
        if (!std::isfinite(most))
            throw InvalidInput("row " + std::to_string(row) + " of the log-probabilities has no finite maximum");
        for (int64_t k = 0; k < classes; ++k) sums[k] = total += std::exp(widen(x[k]) - most);
    }
    void draw(double const* sums, void* output, int64_t row, uint64_t run) const {
        for (int64_t i = 0; i < samples_; ++i) {
            auto at = row * samples_ + i;
            Philox random(info_.seed, static_cast<uint64_t>(at / 2), run);
            auto target = random.uniform(static_cast<int>(at & 1)) * sums[classes_ - 1];
            auto drawn = std::min(std::upper_bound(sums, sums + classes_, target) - sums, classes_ - 1);
            if (wide_)
                static_cast<int64_t*>(output)[at] = drawn;
            else
                static_cast<int32_t*>(output)[at] = static_cast<int32_t>(drawn);
        }
    }
    size_t row_bytes() const { return static_cast<size_t>((classes_ * 8 + 63) / 64 * 64); }

public:
    MultinomialTask(MultinomialInfo const& info, BindArgs const& args, Runs runs)
        : info_(info),
          runs_(std::move(runs)),
          rows_(args.inputs[0]->dims[0]),
          classes_(args.inputs[0]->dims[1]),
          samples_(args.outputs[0]->dims[1]),
          wide_(args.outputs[0]->dtype == DataType::I64),
          threads_(std::max(1, args.threads)) {
        visit_float(args.inputs[0]->dtype, [&](auto tag) { weights_ = accumulate<typename decltype(tag)::type>; });
    }
    static MaybeTask make(MultinomialInfo const& info, BindArgs const& args, Runs const& runs) {
        auto const &x = args.inputs[0]->dims, &y = args.outputs[0]->dims;
        if (x.size() != 2 || y.size() != 2 || x[0] != y[0]) return reject("operands are no matrices of equal height");
        return std::unique_ptr<runtime::Task>(new MultinomialTask(info, args, runs));
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto number = runs_->fetch_add(1, std::memory_order_relaxed);
        if (samples_ == 0) return;
        context.pool.parallel_for(rows_, [&](int64_t row, int worker) {
            auto* memory = context.scratch_of(worker);
            auto* sums = reinterpret_cast<double*>(memory);
            weights_(arguments[0], row, classes_, sums);
            draw(sums, arguments[1], row, number);
        });
    }
    size_t scratch_bytes() const override { return row_bytes(); }
};

}  // namespace

std::string RandomInfo::attributes() const {
    return std::string(distribution == Distribution::Uniform ? "uniform" : "normal") + ",a=" + exact(a) +
           ",b=" + exact(b) + ",seed=" + std::to_string(seed);
}
std::string MultinomialInfo::attributes() const { return "seed=" + std::to_string(seed); }

MaybeKernel make_random_reference(RandomInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.outputs[0].dtype;
    if (!is_any_float(dtype)) return reject("dtype " + std::string(refactor::name_of(dtype)) + " is not a float");
    return std::unique_ptr<Kernel>(new RandomKernel<RandomInfo, RandomTask>(id_of("random", "reference", dtype), info));
}
MaybeKernel make_multinomial_reference(MultinomialInfo const& info, Request const& request) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    auto dtype = request.inputs[0].dtype, drawn = request.outputs[0].dtype;
    if (!is_any_float(dtype)) return reject("dtype " + std::string(refactor::name_of(dtype)) + " is not a float");
    if (drawn != DataType::I32 && drawn != DataType::I64)
        return reject("the output is " + std::string(refactor::name_of(drawn)) + ", expected i32 or i64");
    return std::unique_ptr<Kernel>(
        new RandomKernel<MultinomialInfo, MultinomialTask>(id_of("multinomial", "reference", dtype), info));
}

Candidates candidates(RandomInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("random:nvidia:nvrtc", cuda::random_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "random/random_kernels.inc"
#undef RG_KERNEL
    return answer;
}
Candidates candidates(MultinomialInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("multinomial:nvidia:nvrtc", cuda::multinomial_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "random/multinomial_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
