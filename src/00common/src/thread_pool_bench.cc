#include "common/dim_expr.h"
#include "common/half.h"
#include "common/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

// Prints the median cost of an empty fork-join for 1 to `threads` threads (first argument; default: all processors),
// with spinning workers and with workers that have gone to sleep, the gain on divisible work, and the cost of the other
// hot paths of this layer.

namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> samples) {
    std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2), samples.end());
    return samples[samples.size() / 2];
}

/// Median over samples of the time of one of `repeats` calls, in ns.
template <class F>
double nanoseconds(int samples, int repeats, F&& f) {
    std::vector<double> all;
    for (int i = 0; i < samples; ++i) {
        auto begin = Clock::now();
        for (int k = 0; k < repeats; ++k) f();
        all.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / repeats);
    }
    return median(std::move(all));
}

/// Arithmetic that the compiler can neither remove nor vectorise; about 4 cycles a step.
void burn(int64_t steps) {
    double x = 1;
    for (int64_t i = 0; i < steps; ++i) x = x * 0.999999 + 1e-9;
    static thread_local volatile double sink;
    sink = x;
    (void)sink;
}

void bench_pool(int threads) {
    refactor::ThreadPool pool(threads, threads);
    auto empty = [](int64_t, int) {};
    // A task that waits for all others makes every thread take part; without it the caller has done empty tasks before
    // a worker looks up.
    auto meet = [&] {
        std::atomic<int> arrived{0};
        pool.parallel_for(threads, [&](int64_t, int) {
            arrived.fetch_add(1);
            while (arrived.load(std::memory_order_relaxed) < threads) {
            }
        });
    };
    double alone_empty = nanoseconds(101, 200, [&] { pool.parallel_for(threads, empty); });
    double spinning = nanoseconds(501, 20, meet);
    std::vector<double> asleep;
    for (int i = 0; i < 51; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        asleep.push_back(nanoseconds(1, 1, meet));
    }
    double fine = nanoseconds(51, 10, [&] { pool.parallel_for(1000, empty); });
    std::printf("%7d %12.0f %14.0f %14.0f %16.1f", threads, alone_empty, spinning, median(asleep), fine / 1000);
    for (int64_t steps : {1000, 10000, 100000}) {
        std::vector<double> ratios;
        for (int i = 0; i < 15; ++i) {
            auto repeats = static_cast<int>(200000 / steps) + 1;
            double alone = nanoseconds(1, repeats, [&] { burn(steps); });
            meet();  // wakes workers that went to sleep meanwhile
            double together = nanoseconds(1, repeats, [&] {
                pool.parallel_for(4 * threads, [&](int64_t, int) { burn(steps / (4 * threads)); });
            });
            ratios.push_back(alone / together);
        }
        std::printf(" %12.2f", median(std::move(ratios)));
    }
    std::printf("\n");
}

void bench_conversion(refactor::DataType from, refactor::DataType to) {
    constexpr int64_t kCount = 4096;
    std::vector<double> source(kCount, 0.5), target(kCount);
    double time = nanoseconds(51, 50, [&] { refactor::convert(from, source.data(), to, target.data(), kCount); });
    std::printf("convert %5.*s to %-8.*s %8.2f ns an element\n", static_cast<int>(name_of(from).size()),
                name_of(from).data(), static_cast<int>(name_of(to).size()), name_of(to).data(), time / kCount);
}

void bench_dims() {
    using refactor::DimExpr;
    auto n = DimExpr::symbol(0), s = DimExpr::symbol(1);
    refactor::DimProgram program;
    for (int i = 1; i < 200; ++i) program.add(max(floor_div(n * i + s, i % 7 + 2) + i, s * i));
    std::vector<int64_t> bindings{8, 128}, values(program.slots());
    double time = nanoseconds(51, 50, [&] { program.evaluate(bindings, values); });
    std::printf("DimProgram: %zu instructions, %.2f ns each\n", program.slots(),
                time / static_cast<double>(program.slots()));
}

}  // namespace

int main(int argc, char** argv) {
    int most = argc > 1 ? std::atoi(argv[1]) : refactor::default_thread_count();
    std::printf("%7s %12s %14s %14s %16s %38s\n", "threads", "empty ns", "fork-join ns", "from sleep ns",
                "ns a tiny task", "speed-up of 1e3, 1e4, 1e5 steps");
    for (int threads = 1; threads <= most; ++threads) bench_pool(threads);
    using refactor::DataType;
    bench_conversion(DataType::F32, DataType::F16);
    bench_conversion(DataType::F16, DataType::F32);
    bench_conversion(DataType::F32, DataType::BF16);
    bench_conversion(DataType::F32, DataType::F8E4M3FN);
    bench_conversion(DataType::I4, DataType::F32);
    bench_conversion(DataType::F64, DataType::F16);
    bench_conversion(DataType::F16, DataType::I32);
    bench_dims();
}
