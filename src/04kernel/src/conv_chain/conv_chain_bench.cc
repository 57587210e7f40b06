#include "common/cpu_features.h"
#include "common/thread_pool.h"
#include "conv/geometry.h"
#include "kernel/ops/conv_chain.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "runtime/task_memory.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>

// conv_chain_bench [threads = 1] [filter] [milliseconds = 300] [avx2 | avx512] [batch = 1]: blocks of mobile networks
// with their convolutions one after the other, and with those of one depthwise convolution joined. Columns: block, how
// it is cut (e expand, d depthwise, p project; one word a node), time, estimate, stages one by one over it.

using namespace refactor;
using namespace refactor::kernel;

namespace {

struct Block {
    char const* name;
    int64_t size, in, wide, out, taps, stride;  ///< `in` 0: no expand; `out` 0: no project
};
constexpr Block kBlocks[] = {
    {"v2_112_32_16", 112, 0, 32, 16, 3, 1},         {"v2_112_16_96_24s2", 112, 16, 96, 24, 3, 2},
    {"v2_56_24_144_24", 56, 24, 144, 24, 3, 1},     {"v2_56_24_144_32s2", 56, 24, 144, 32, 3, 2},
    {"v2_28_32_192_32", 28, 32, 192, 32, 3, 1},     {"v2_28_32_192_64s2", 28, 32, 192, 64, 3, 2},
    {"v2_14_64_384_64", 14, 64, 384, 64, 3, 1},     {"v2_14_96_576_96", 14, 96, 576, 96, 3, 1},
    {"v2_7_160_960_160", 7, 160, 960, 160, 3, 1},   {"v1_112_32_64", 112, 0, 32, 64, 3, 1},
    {"v1_112_64_128s2", 112, 0, 64, 128, 3, 2},     {"v1_56_128_128", 56, 0, 128, 128, 3, 1},
    {"v1_28_256_256", 28, 0, 256, 256, 3, 1},       {"v1_14_512_512", 14, 0, 512, 512, 3, 1},
    {"mnas_112_32_16", 112, 0, 32, 16, 3, 1},       {"mnas_56_24_72_24", 56, 24, 72, 24, 3, 1},
    {"mnas_28_40_120_40k5", 28, 40, 120, 40, 5, 1}, {"b0_112_16_96s2", 112, 16, 96, 0, 3, 2},
    {"b0_56_24_144", 56, 24, 144, 0, 3, 1},         {"b0_56_24_144s2k5", 56, 24, 144, 0, 5, 2},
    {"b0_28_40_240k5", 28, 40, 240, 0, 5, 1},       {"b0_14_80_480k5", 14, 80, 480, 0, 5, 1},
    {"det_160_16_64_24s2", 160, 16, 64, 24, 3, 2},  {"det_160_24_72_24", 160, 24, 72, 24, 3, 1},
    {"wide_224_16_96_16", 224, 16, 96, 16, 3, 1},
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::shared_ptr<mem_manager::Blob> random_blob(int64_t count) {
    auto blob = mem_manager::Blob::make(mem_manager::cpu_device(), static_cast<size_t>(count) * 4);
    static std::mt19937 rng(1);
    std::normal_distribution<float> normal(0.f, 0.1f);
    auto* p = static_cast<float*>(blob->data());
    for (int64_t i = 0; i < count; ++i) p[i] = normal(rng);
    return blob;
}

/// One node of a cut: a chain with its operands and the task of the cheapest or only kernel.
struct Step {
    ConvChainInfo info;
    std::vector<Operand> operands;
    Operand output;
    std::unique_ptr<runtime::Task> task;
    double estimate = 0;
    std::vector<std::shared_ptr<mem_manager::Blob>> blobs;
    std::optional<runtime::TaskMemory> memory;
    std::vector<void*> pointers;
};

ConvInfo stage_of(Block const& b, char stage) {
    auto pad = stage == 'd' ? b.taps / 2 : 0, stride = stage == 'd' ? b.stride : 1;
    ConvInfo info;
    info.window = {{stride, stride}, {1, 1}, {pad, pad}, {pad, pad}};
    info.group = stage == 'd' ? b.wide : 1;
    info.epilogue.bias = true;
    if (stage != 'p') info.epilogue.activation = {ActivationKind::Clip, 0, 6};
    return info;
}

Dims weights_of(Block const& b, char stage) {
    if (stage == 'e') return {b.wide, b.in, 1, 1};
    if (stage == 'p') return {b.out, b.wide, 1, 1};
    return {b.wide, 1, b.taps, b.taps};
}

struct Bench {
    Isa isa;
    ThreadPool& pool;
    double seconds;
    int64_t batch;
    PackCache packs{};

    void prepare(Step& step, Block const& b, std::string const& word, Operand x,
                 std::shared_ptr<mem_manager::Blob> from) {
        step.operands.push_back(x);
        step.blobs.push_back(std::move(from));
        auto size = x.dims[2], channels = x.dims[1];
        for (char stage : word) {
            step.info.stages.push_back(stage_of(b, stage));
            for (auto dims : {weights_of(b, stage), Dims{weights_of(b, stage)[0]}}) {
                Operand operand;
                operand.dtype = DataType::F32, operand.dims = dims;
                auto blob = random_blob(operand.count());
                operand.constant = blob;
                step.blobs.push_back(blob);
                step.operands.push_back(operand);
            }
            if (stage == 'd') size = (size + 2 * (b.taps / 2) - b.taps) / b.stride + 1;
            channels = weights_of(b, stage)[0];
        }
        step.output = x;
        step.output.dims = {batch, channels, size, size};
        step.blobs.push_back(random_blob(step.output.stored_count()));
        std::vector<TensorDesc const*> inputs, outputs{&step.output};
        for (auto const& operand : step.operands) inputs.push_back(&operand);
        BindArgs args{inputs, outputs, {}, packs, pool.threads()};
        auto found = candidates(step.info, {step.operands, {&step.output, 1}, "cpu", isa, pool.threads()});
        auto const& kernel = found.kernels.front();
        auto estimate = kernel->estimate(args);
        step.estimate = estimate ? *estimate : 0;
        step.task = kernel->bind(args).value();
        step.memory.emplace(*step.task, pool.threads());
        for (auto const& blob : step.blobs) step.pointers.push_back(blob->data());
    }

    void measure(Block const& b, std::vector<std::vector<std::string>> const& cuts) {
        std::vector<std::vector<Step>> all;
        for (auto const& cut : cuts) {
            Operand x;
            x.dtype = DataType::F32, x.dims = {batch, b.in ? b.in : b.wide, b.size, b.size};
            x.layout = isa >= Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
            auto from = random_blob(x.stored_count());
            auto& steps = all.emplace_back();
            for (auto const& word : cut) {
                auto& step = steps.emplace_back();
                prepare(step, b, word, x, from);
                x = step.output, from = step.blobs.back();
            }
        }
        std::vector<double> best(cuts.size(), 1e9);
        auto stop = now() + seconds * static_cast<double>(cuts.size());
        while (now() < stop)
            for (size_t i = 0; i < cuts.size(); ++i)
                for (int round = 0; round < 3; ++round) {
                    auto start = now();
                    for (auto const& step : all[i]) step.task->run(step.pointers.data(), step.memory->context(pool));
                    best[i] = std::min(best[i], now() - start);
                }
        for (size_t i = 0; i < cuts.size(); ++i) {
            std::string name;
            double estimate = 0;
            for (auto const& word : cuts[i]) name += word + " ";
            for (auto const& step : all[i]) estimate += step.estimate;
            std::printf("%-20s %-6s %9.1f us  estimate %9.1f us  ratio %.3f estimated %.3f\n", b.name, name.c_str(),
                        best[i] * 1e6, estimate * 1e-3, best[0] / best[i], [&] {
                            double first = 0;
                            for (auto const& s : all[0]) first += s.estimate;
                            return first / estimate;
                        }());
        }
    }
};

}  // namespace

int main(int argc, char** argv) {
    ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : 1);
    std::string filter = argc > 2 ? argv[2] : "";
    auto seconds = (argc > 3 ? std::atof(argv[3]) : 300) * 1e-3;
    auto isa = cpu_features().isa;
    if (argc > 4 && std::string(argv[4]) == "avx2") isa = Isa::Avx2;
    FlushDenormals flush;
    for (auto const& b : kBlocks) {
        if (std::string(b.name).find(filter) == std::string::npos) continue;
        Bench bench{isa, pool, seconds, argc > 5 ? std::atoi(argv[5]) : 1};
        if (!b.in)
            bench.measure(b, {{"d", "p"}, {"dp"}});
        else if (!b.out)
            bench.measure(b, {{"e", "d"}, {"ed"}});
        else
            bench.measure(b, {{"e", "d", "p"}, {"ed", "p"}, {"e", "dp"}, {"edp"}});
        std::fflush(stdout);
    }
}
