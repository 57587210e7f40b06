// Peak of planned memory over its lower bound, and the cost of planning, on lifetimes of networks and on random ones.
#include "lifetimes_test.h"

#include <chrono>
#include <cstdio>
#include <numeric>

namespace refactor::mem_manager {

namespace {

void report(char const* name, std::vector<Lifetime> const& lives) {
    constexpr int kRuns = 50;
    MemoryPlan plan;
    double best = 1e9;
    for (int run = 0; run < kRuns; ++run) {
        auto start = std::chrono::steady_clock::now();
        plan = plan_memory(lives);
        best =
            std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    auto kib = [](size_t bytes) { return static_cast<double>(bytes) / 1024; };
    auto total = std::accumulate(lives.begin(), lives.end(), size_t(0),
                                 [](size_t sum, Lifetime const& l) { return sum + l.bytes; });
    std::printf("%-24s %6zu %14.0f %14.0f %14.0f %8.3f %10.1f %8.3f\n", name, lives.size(), kib(total),
                kib(plan.lower_bound), kib(plan.peak_bytes),
                static_cast<double>(plan.peak_bytes) / static_cast<double>(plan.lower_bound), best,
                best / static_cast<double>(lives.size()));
}

}  // namespace

}  // namespace refactor::mem_manager

int main() {
    using namespace refactor::mem_manager;
    std::mt19937 random(1);
    std::printf("%-24s %6s %14s %14s %14s %8s %10s %8s\n", "lifetimes", "blocks", "no sharing KiB", "bound KiB",
                "peak KiB", "ratio", "us", "us/block");
    report("chain, random sizes", test::chain(1000, random));
    report("residual", test::residual(16));
    report("residual, long", test::residual(250));
    report("unet", test::unet(5, 2));
    report("transformer", test::transformer(12, 128, false));
    report("transformer, long", test::transformer(72, 128, false));
    report("transformer with cache", test::transformer(12, 128, true));
    for (uint32_t longest : {4u, 16u, 100u}) {
        auto name = "random, up to " + std::to_string(longest) + " steps";
        report(name.c_str(), test::random_lifetimes(random, 1000, 1000, longest, false));
    }
    report("random, dense", test::random_lifetimes(random, 1000, 50, 50, false));
}
