// Prints times of attention and of softmax, layer normalisation and reductions: attention_bench [threads]
#include "common/thread_pool.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/reduce.h"
#include "mem_manager/blob.h"
#include "runtime/task_memory.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace refactor::kernel {
namespace {

using Clock = std::chrono::steady_clock;

/// Fastest of 21 batches of about 1 ms, in ns: other load of the machine only adds.
template <class F>
double measure(F&& f) {
    f();
    auto begin = Clock::now();
    f();
    auto once = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
    auto loops = std::max(1, static_cast<int>(1e6 / std::max(once, 20.)));
    std::vector<double> times;
    for (int i = 0; i < 21; ++i) {
        begin = Clock::now();
        for (int j = 0; j < loops; ++j) f();
        times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / loops);
    }
    return *std::min_element(times.begin(), times.end());
}

template <class Info>
void bench(Info const& info, std::vector<Dims> const& in, std::vector<Dims> const& out, int threads) {
    std::vector<Operand> operands[2];
    std::vector<std::vector<float>> data;
    std::vector<TensorDesc const*> descs[2];
    std::vector<void*> arguments;
    double bytes = 0;
    for (int side = 0; side < 2; ++side)
        for (auto const& dims : side ? out : in) {
            auto& o = operands[side].emplace_back();
            o.dtype = DataType::F32, o.dims = dims;
            auto& d = data.emplace_back(static_cast<size_t>(o.count()));
            for (size_t i = 0; i < d.size(); ++i) d[i] = static_cast<float>(i * 7919 % 2003) / 1000 - 1;
            bytes += 4. * static_cast<double>(o.count());
        }
    for (auto& d : data) arguments.push_back(d.data());
    for (int side = 0; side < 2; ++side)
        for (auto& o : operands[side]) descs[side].push_back(&o);
    Request request;
    request.inputs = operands[0], request.outputs = operands[1], request.isa = cpu_features().isa;
    request.threads = threads;
    PackCache packs;
    ThreadPool pool(threads);
    for (auto const& kernel : candidates(info, request).kernels) {
        if (kernel->id().find("reference") != std::string::npos) continue;
        auto bound = kernel->bind({descs[0], descs[1], {}, packs, threads});
        if (!bound) continue;
        auto& task = *bound;
        runtime::TaskMemory memory(*task, threads);
        auto context = memory.context(pool);
        auto ns = measure([&] { task->run(arguments.data(), context); });
        std::string shape;
        for (auto d : in[0]) shape += (shape.empty() ? "" : "x") + std::to_string(d);
        if (in.size() > 1 && in[1].size() > 1) shape += ", " + std::to_string(in[1][in[1].size() - 2]);
        std::printf("%-36s %-32s %-16s %9.2f us %7.1f GFLOP/s %6.1f GB/s\n", kernel->id().c_str(),
                    info.attributes().c_str(), shape.c_str(), ns / 1e3, task->operations() / ns, bytes / ns);
    }
}

void bench_attention(Dims q, int64_t kv_heads, int64_t keys, bool causal, int threads, bool may_round = true) {
    AttentionInfo info;
    info.scale = 0.125f, info.causal = causal, info.may_round = may_round;
    bench(info, {q, {q[0], kv_heads, keys, q[3]}, {q[0], kv_heads, keys, q[3]}}, {q}, threads);
}

void bench_all(int threads) {
    bench_attention({1, 12, 128, 64}, 12, 128, false, threads);
    bench_attention({1, 12, 512, 64}, 12, 512, false, threads);
    bench_attention({1, 12, 512, 64}, 12, 512, true, threads);
    bench_attention({1, 6, 197, 64}, 6, 197, false, threads);
    bench_attention({1, 6, 1500, 64}, 6, 1500, false, threads);
    bench_attention({1, 12, 1, 64}, 12, 512, false, threads);
    bench_attention({1, 32, 1, 128}, 8, 2048, false, threads);
    bench_attention({1, 8, 4096, 16}, 8, 7, false, threads);
    bench_attention({1, 8, 7, 16}, 8, 4096, false, threads);
    // Few keys have a kernel of their own, beside those that do not round.
    for (int64_t depth : {16, 32, 64, 128})
        for (int64_t keys : {1, 7, 16, 32, 49, 64, 81, 112})
            for (int64_t queries : {4, 20, 49, 128, 1000})
                bench_attention({1, 8, queries, depth}, 8, keys, false, threads, false);
    bench(SoftmaxInfo{3, 1, false, false}, {{1, 12, 128, 128}}, {{1, 12, 128, 128}}, threads);
    bench(SoftmaxInfo{1, 1, false, false}, {{1, 1000}}, {{1, 1000}}, threads);
    bench(SoftmaxInfo{1, 1, false, false}, {{1, 21, 65, 65}}, {{1, 21, 65, 65}}, threads);
    bench(LayerNormInfo{2, 1e-5f, false, true, false}, {{1, 128, 768}, {768}, {768}}, {{1, 128, 768}}, threads);
    bench(GroupNormInfo{32, 1e-5f}, {{1, 320, 32, 32}, {320}, {320}}, {{1, 320, 32, 32}}, threads);
    bench(ReduceInfo{ReduceKind::Mean, {2, 3}}, {{1, 1280, 7, 7}}, {{1, 1280}}, threads);
    bench(ReduceInfo{ReduceKind::Mean, {1}}, {{1, 197, 384}}, {{1, 384}}, threads);
    bench(ReduceInfo{ReduceKind::Max, {1}}, {{1000, 1000}}, {{1000}}, threads);
}

}  // namespace
}  // namespace refactor::kernel

int main(int count, char** arguments) { refactor::kernel::bench_all(count > 1 ? std::atoi(arguments[1]) : 1); }
