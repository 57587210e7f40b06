// Prints GFLOP/s and µs of products of the shapes in docs/findings: matmul_bench [threads] [name filter]
#include "common/thread_pool.h"
#include "kernel/ops/matmul.h"
#include "mem_manager/blob.h"
#include "runtime/task_memory.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace refactor::kernel {
namespace {

using Clock = std::chrono::steady_clock;

struct Memory {
    std::vector<float> data;
    explicit Memory(int64_t count) : data(static_cast<size_t>(count)) {
        std::minstd_rand random(1);
        for (auto& x : data) x = static_cast<float>(random() % 2001) / 1000 - 1;
    }
};

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

struct Shape {
    char const* name;
    int64_t batch, m, k, n;
    bool trans_b, constant;
    DataType type = DataType::F32;  // of B
};
constexpr Shape kShapes[]{
    {"bert 768x768", 1, 128, 768, 768, false, true},     {"bert ffn up", 1, 128, 768, 3072, false, true},
    {"bert ffn down", 1, 128, 3072, 768, false, true},   {"vit ffn up", 1, 197, 384, 1536, false, true},
    {"whisper ffn up", 1, 1500, 384, 1536, false, true}, {"lm head", 1, 1, 768, 50257, true, true},
    {"lm head, open B", 1, 1, 768, 50257, true, false},  {"gemv 768x3072", 1, 1, 768, 3072, false, true},
    {"4 rows 768x3072", 1, 4, 768, 3072, false, true},   {"square 512, open B", 1, 512, 512, 512, false, false},
    {"scores", 12, 128, 64, 128, false, false},          {"scores, B transposed", 12, 128, 64, 128, true, false},
    {"weighted values", 12, 128, 128, 64, false, false}, {"tiny", 1, 1, 4, 4, false, true}};
/// Shapes of a language model whose weights are of other types.
constexpr int64_t kRows[]{1, 2, 4, 8, 32, 128, 512};

void bench(Shape const& s, int threads) {
    Dims a{s.batch, s.m, s.k}, b{s.batch, s.k, s.n}, y{s.batch, s.m, s.n};
    if (s.trans_b) std::swap(b[1], b[2]);
    Memory ma(element_count(a)), mb(element_count(b)), my(element_count(y));
    std::vector<Operand> in(2), out(1);
    in[0].dims = a, in[1].dims = b, out[0].dims = y;
    in[0].dtype = out[0].dtype = DataType::F32, in[1].dtype = s.type;
    auto bytes = storage_bytes(s.type, element_count(b));
    // Of floats of two bytes, all of the same finite value.
    if (s.type != DataType::F32) std::memset(mb.data.data(), 0x3c, bytes);
    if (s.constant) in[1].constant = mem_manager::Blob::copy_of(mb.data.data(), bytes);
    if (s.type == DataType::I8) {
        in.emplace_back().dims = {s.n};
        in[2].dtype = DataType::F32;
    }
    std::vector<float> scales(static_cast<size_t>(s.n), 0.01f);
    Request request;
    request.inputs = in, request.outputs = out, request.isa = cpu_features().isa, request.threads = threads;
    MatMulInfo info;
    info.trans_b = s.trans_b, info.scaled = s.type == DataType::I8, info.may_round = true;
    PackCache packs;
    ThreadPool pool(threads);
    for (auto const& kernel : candidates(info, request).kernels) {
        if (kernel->id().find("reference") != std::string::npos) continue;
        std::vector<TensorDesc const*> inputs;
        for (auto const& operand : in) inputs.push_back(&operand);
        TensorDesc const* outputs[]{&out[0]};
        BindArgs args{inputs, outputs, {}, packs, threads};
        auto bound = kernel->bind(args);
        if (!bound.ok()) continue;
        auto task = std::move(bound).value();
        auto bind_ns = measure([&] { (void)kernel->bind(args); });
        runtime::TaskMemory memory(*task, pool.threads());
        auto context = memory.context(pool);
        std::vector<void*> arguments{ma.data.data(), mb.data.data()};
        if (info.scaled) arguments.push_back(scales.data());
        arguments.push_back(my.data.data());
        auto ns = measure([&] { task->run(arguments.data(), context); });
        std::printf("%-22s %3ldx%ldx%ldx%ld  %-32s %10.3f us %8.1f GFLOP/s %7.1f GB/s of B, bind %.2f us\n", s.name,
                    s.batch, s.m, s.k, s.n, kernel->id().c_str(), ns / 1e3, task->operations() / ns,
                    static_cast<double>(bytes) / ns, bind_ns / 1e3);
    }
}

}  // namespace
}  // namespace refactor::kernel

int main(int count, char** arguments) {
    int threads = count > 1 ? std::atoi(arguments[1]) : 1;
    for (auto const& shape : refactor::kernel::kShapes)
        if (count < 3 || std::strstr(shape.name, arguments[2])) refactor::kernel::bench(shape, threads);
    using refactor::DataType;
    for (auto rows : refactor::kernel::kRows)
        for (auto type : {DataType::F32, DataType::F16, DataType::BF16, DataType::I8})
            if (count < 3 || std::strstr("weights", arguments[2]))
                refactor::kernel::bench({"weights", 1, rows, 1024, 24576, false, true, type}, threads);
}
