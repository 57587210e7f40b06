#include "common/cpu_features.h"
#include "common/half.h"
#include "common/thread_pool.h"
#include "conv/geometry.h"
#include "kernel/ops/conv.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "runtime/task_memory.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

// conv_bench [threads = 1] [filter] [milliseconds = 200] [avx2 | plain | rounded | bf16]: speed of every candidate on
// common layers, between blocked tensors or Plain ones, with operands that may be rounded to bf16, or between tensors
// of bf16. Columns: shape, kernel, time, GFLOP/s, estimate, time to bind.

using namespace refactor;
using namespace refactor::kernel;

namespace {

struct Shape {
    char const* name;
    int64_t channels, height, width, out_channels, kernel_h, kernel_w, stride, group;
};
constexpr Shape kShapes[] = {
    {"3x3_56_64_64", 64, 56, 56, 64, 3, 3, 1, 1},
    {"3x3_28_128_128", 128, 28, 28, 128, 3, 3, 1, 1},
    {"3x3_14_256_256", 256, 14, 14, 256, 3, 3, 1, 1},
    {"3x3_7_512_512", 512, 7, 7, 512, 3, 3, 1, 1},
    {"3x3_224_64_64", 64, 224, 224, 64, 3, 3, 1, 1},
    {"3x3_112_128_128", 128, 112, 112, 128, 3, 3, 1, 1},
    {"3x3_56_256_256", 256, 56, 56, 256, 3, 3, 1, 1},
    {"3x3_28_512_512", 512, 28, 28, 512, 3, 3, 1, 1},
    {"3x3_14_512_512", 512, 14, 14, 512, 3, 3, 1, 1},
    {"3x3_80_64_64", 64, 80, 80, 64, 3, 3, 1, 1},
    {"3x3_40_64_64", 64, 40, 40, 64, 3, 3, 1, 1},
    {"3x3_20_128_128", 128, 20, 20, 128, 3, 3, 1, 1},
    {"3x3_160_16_16", 16, 160, 160, 16, 3, 3, 1, 1},
    {"3x3_80_32_32", 32, 80, 80, 32, 3, 3, 1, 1},
    {"3x3_14_128_32", 128, 14, 14, 32, 3, 3, 1, 1},
    {"3x3s2_56_128_128", 128, 56, 56, 128, 3, 3, 2, 1},
    {"3x3_56_128_32", 128, 56, 56, 32, 3, 3, 1, 1},
    {"3x3_28_128_32", 128, 28, 28, 32, 3, 3, 1, 1},
    {"3x3_7_128_32", 128, 7, 7, 32, 3, 3, 1, 1},
    {"3x3_10_128_128", 128, 10, 10, 128, 3, 3, 1, 1},
    {"3x3s2_40_64_64", 64, 40, 40, 64, 3, 3, 2, 1},
    {"3x3s2_80_64_64", 64, 80, 80, 64, 3, 3, 2, 1},
    {"3x3s2_160_16_32", 16, 160, 160, 32, 3, 3, 2, 1},
    {"3x3s2_80_32_64", 32, 80, 80, 64, 3, 3, 2, 1},
    {"3x3s2_56_64_128", 64, 56, 56, 128, 3, 3, 2, 1},
    {"3x3s2_28_128_256", 128, 28, 28, 256, 3, 3, 2, 1},
    {"3x3s2_28_256_256", 256, 28, 28, 256, 3, 3, 2, 1},
    {"3x3s2_20_128_128", 128, 20, 20, 128, 3, 3, 2, 1},
    {"3x3s2_14_512_512", 512, 14, 14, 512, 3, 3, 2, 1},
    {"3x3s2_14_256_512", 256, 14, 14, 512, 3, 3, 2, 1},
    {"3x3s2_112_24_48", 24, 112, 112, 48, 3, 3, 2, 1},
    {"3x3s2_320_32_64", 32, 320, 320, 64, 3, 3, 2, 1},
    {"1x1_56_64_256", 64, 56, 56, 256, 1, 1, 1, 1},
    {"1x1_56_256_64", 256, 56, 56, 64, 1, 1, 1, 1},
    {"1x1_28_512_128", 512, 28, 28, 128, 1, 1, 1, 1},
    {"1x1_14_1024_256", 1024, 14, 14, 256, 1, 1, 1, 1},
    {"1x1_14_256_1024", 256, 14, 14, 1024, 1, 1, 1, 1},
    {"1x1_7_512_2048", 512, 7, 7, 2048, 1, 1, 1, 1},
    {"1x1s2_56_256_512", 256, 56, 56, 512, 1, 1, 2, 1},
    {"1x1_112_32_16", 32, 112, 112, 16, 1, 1, 1, 1},
    {"1x1_19_728_728", 728, 19, 19, 728, 1, 1, 1, 1},
    {"1x1_75_128_256", 128, 75, 75, 256, 1, 1, 1, 1},
    {"1x1_56_24_144", 24, 56, 56, 144, 1, 1, 1, 1},
    {"1x1_7_320_1280", 320, 7, 7, 1280, 1, 1, 1, 1},
    {"dw3x3_112_32", 32, 112, 112, 32, 3, 3, 1, 32},
    {"dw3x3s2_112_96", 96, 112, 112, 96, 3, 3, 2, 96},
    {"dw3x3_56_144", 144, 56, 56, 144, 3, 3, 1, 144},
    {"dw3x3_14_384", 384, 14, 14, 384, 3, 3, 1, 384},
    {"dw3x3_7_960", 960, 7, 7, 960, 3, 3, 1, 960},
    {"dw5x5_28_120", 120, 28, 28, 120, 5, 5, 1, 120},
    {"dw7x7_56_96", 96, 56, 56, 96, 7, 7, 1, 96},
    {"dw7x7_14_384", 384, 14, 14, 384, 7, 7, 1, 384},
    {"dw11x11_28_64", 64, 28, 28, 64, 11, 11, 1, 64},
    {"dw7x7_7_768", 768, 7, 7, 768, 7, 7, 1, 768},
    {"7x7s2_224_3_64", 3, 224, 224, 64, 7, 7, 2, 1},
    {"3x3s2_224_3_32", 3, 224, 224, 32, 3, 3, 2, 1},
    {"3x3_224_3_64", 3, 224, 224, 64, 3, 3, 1, 1},
    {"1d3_3000_80_384", 80, 1, 3000, 384, 1, 3, 1, 1},
    {"g32_14_256", 256, 14, 14, 256, 3, 3, 1, 32},
    {"g32_56_128", 128, 56, 56, 128, 3, 3, 1, 32},
    {"few3x39_172_8_8", 8, 172, 264, 8, 3, 39, 1, 1},
    {"few5x5_172_8_1", 8, 172, 264, 1, 5, 5, 1, 1},
    {"few1d256s2_1_1", 1, 1, 43844, 1, 1, 256, 2, 1},
    {"few5x5_256_1_1", 1, 256, 256, 1, 5, 5, 1, 1},
    {"few3x3_224_3_3", 3, 224, 224, 3, 3, 3, 1, 1},
    {"few3x3s2_224_3_8", 3, 224, 224, 8, 3, 3, 2, 1},
    {"few3x3_28_4_4", 4, 28, 28, 4, 3, 3, 1, 1},
    {"few3x3_224_12_2", 12, 224, 224, 2, 3, 3, 1, 1},
    {"few9x9_224_64_3", 64, 224, 224, 3, 9, 9, 1, 1},
    {"half3x3_80_24_24", 24, 80, 80, 24, 3, 3, 1, 1},
    {"half1x1_56_72_24", 72, 56, 56, 24, 1, 1, 1, 1},
    {"half1x1_28_120_40", 120, 28, 28, 40, 1, 1, 1, 1},
    {"half3x3s2_224_3_24", 3, 224, 224, 24, 3, 3, 2, 1},
    {"half1x1_56_64_8", 64, 56, 56, 8, 1, 1, 1, 1},
    {"few1x1_224_8_8", 8, 224, 224, 8, 1, 1, 1, 1},
    {"g32_28_256", 256, 28, 28, 256, 3, 3, 1, 32},
    {"g7_28_168", 168, 28, 28, 168, 3, 3, 1, 7},
    {"5x5_27_64_192", 64, 27, 27, 192, 5, 5, 1, 1},
    {"5x5_35_48_64", 48, 35, 35, 64, 5, 5, 1, 1},
    {"5x5_28_32_96", 32, 28, 28, 96, 5, 5, 1, 1},
    {"5x5_14_32_128", 32, 14, 14, 128, 5, 5, 1, 1},
    {"5x5_7_48_128", 48, 7, 7, 128, 5, 5, 1, 1},
    {"5x5_128_64_32", 64, 128, 128, 32, 5, 5, 1, 1},
    {"5x5_28_256_256", 256, 28, 28, 256, 5, 5, 1, 1},
    {"5x5_14_512_512", 512, 14, 14, 512, 5, 5, 1, 1},
    {"7x7_46_128_128", 128, 46, 46, 128, 7, 7, 1, 1},
    {"7x7_46_185_128", 185, 46, 46, 128, 7, 7, 1, 1},
    {"7x7_14_128_128", 128, 14, 14, 128, 7, 7, 1, 1},
    {"7x7_7_64_64", 64, 7, 7, 64, 7, 7, 1, 1},
    {"7x7_112_16_16", 16, 112, 112, 16, 7, 7, 1, 1},
    {"7x7_28_512_512", 512, 28, 28, 512, 7, 7, 1, 1},
    {"g3_28_240_60", 240, 28, 28, 60, 1, 1, 1, 3},
    {"g8_28_96_384", 96, 28, 28, 384, 1, 1, 1, 8},
    {"g8_14_768_192", 768, 14, 14, 192, 1, 1, 1, 8},
    {"g2_28_200_200", 200, 28, 28, 200, 1, 1, 1, 2},
    {"g4_11_400_84", 400, 11, 13, 84, 1, 1, 1, 4},
    {"pw_32_64_64", 64, 32, 32, 64, 1, 1, 1, 1},
    {"pw_16_192_192", 192, 16, 16, 192, 1, 1, 1, 1},
    {"pw_32_64_128", 64, 32, 32, 128, 1, 1, 1, 1},
    {"pw_14_64_64", 64, 14, 14, 64, 1, 1, 1, 1},
    {"pw_64_128_64", 128, 64, 64, 64, 1, 1, 1, 1},
    {"pw_7_64_96", 64, 7, 7, 96, 1, 1, 1, 1},
    {"g4_28_256_256", 256, 28, 28, 256, 1, 1, 1, 4},
    {"g5x3_28_100_100", 100, 28, 28, 100, 3, 3, 1, 5},
    {"g3x3_28_72_72", 72, 28, 28, 72, 3, 3, 1, 3},
    {"g26x3_14_208_208", 208, 14, 14, 208, 3, 3, 1, 26},
    {"g13x3_28_104_104", 104, 28, 28, 104, 3, 3, 1, 13},
    {"g17x3_14_408_408", 408, 14, 14, 408, 3, 3, 1, 17},
    {"g38x3_7_912_912", 912, 7, 7, 912, 3, 3, 1, 38},
    {"g14x3_14_560_560", 560, 14, 14, 560, 3, 3, 1, 14},
    {"g34x3_7_1360_1360", 1360, 7, 7, 1360, 3, 3, 1, 34},
    {"g6x3_28_240_240", 240, 28, 28, 240, 3, 3, 1, 6},
    {"g3x3_56_72_72", 72, 56, 56, 72, 3, 3, 1, 3},
    {"g2x3_56_240_240", 240, 56, 56, 240, 3, 3, 1, 2},
    {"g4x3_14_48_48", 48, 14, 14, 48, 3, 3, 1, 4},
    {"g8x3s3_51_56_368", 56, 51, 52, 368, 3, 3, 3, 8},
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::shared_ptr<mem_manager::Blob> random_blob(Operand const& operand) {
    static std::mt19937 rng(1);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(operand.stored_count()));
    for (auto& value : values) value = normal(rng);
    auto blob = mem_manager::Blob::make(mem_manager::cpu_device(), storage_bytes(operand.dtype, std::ssize(values)));
    convert(DataType::F32, values.data(), operand.dtype, blob->data(), std::ssize(values));
    return blob;
}

void measure(Shape const& s, Operand x, Operand y, Isa isa, bool rounded, ThreadPool& pool, double seconds) {
    ConvInfo info;
    info.may_round = rounded;
    info.group = s.group;
    info.epilogue.bias = true, info.epilogue.activation.kind = ActivationKind::Relu;
    auto ph = s.kernel_h / 2, pw = s.kernel_w / 2;
    info.window = {{s.kernel_h == 1 ? 1 : s.stride, s.stride}, {1, 1}, {ph, pw}, {ph, pw}};
    if (s.kernel_h == 1 && s.kernel_w == 1) info.window.strides = {s.stride, s.stride};
    Operand operands[3];
    x.dims = {1, s.channels, s.height, s.width}, operands[0] = x;
    operands[1].dims = {s.out_channels, s.channels / s.group, s.kernel_h, s.kernel_w};
    operands[2].dims = {s.out_channels};
    y.dims = {1, s.out_channels, (s.height + 2 * ph - s.kernel_h) / info.window.strides[0] + 1,
              (s.width + 2 * pw - s.kernel_w) / info.window.strides[1] + 1};
    operands[1].dtype = operands[2].dtype = DataType::F32;
    std::shared_ptr<mem_manager::Blob> blobs[4];
    for (int i = 0; i < 3; ++i) blobs[i] = random_blob(operands[i]);
    blobs[3] = random_blob(y);
    operands[1].constant = blobs[1];
    PackCache packs;
    TensorDesc const* inputs[] = {&operands[0], &operands[1], &operands[2]};
    TensorDesc const* outputs[] = {&y};
    BindArgs args{inputs, outputs, {}, packs, pool.threads()};
    for (auto const& kernel : candidates(info, {operands, {&y, 1}, "cpu", isa, pool.threads()}).kernels) {
        if (kernel->id().find("reference") != std::string::npos) continue;
        auto task = kernel->bind(args);
        if (!task) continue;
        runtime::TaskMemory memory(**task, pool.threads());
        auto context = memory.context(pool);
        void* pointers[] = {blobs[0]->data(), blobs[1]->data(), blobs[2]->data(), blobs[3]->data()};
        double best = 1e9, stop = now() + seconds;
        while (now() < stop) {
            auto start = now();
            (*task)->run(pointers, context);
            best = std::min(best, now() - start);
        }
        auto start = now();
        for (int i = 0; i < 20; ++i) task = kernel->bind(args);
        auto bind = (now() - start) / 20;
        auto estimate = kernel->estimate(args);
        std::printf("%-18s %-38s %10.1f us %8.1f GFLOP/s  estimate %10.1f us  bind %.2f us\n", s.name,
                    kernel->id().c_str(), best * 1e6, (*task)->operations() / best * 1e-9,
                    estimate ? *estimate * 1e-3 : -1., bind * 1e6);
    }
}

}  // namespace

int main(int argc, char** argv) {
    auto threads = argc > 1 ? std::atoi(argv[1]) : 1;
    std::string filter = argc > 2 ? argv[2] : "";
    auto seconds = (argc > 3 ? std::atof(argv[3]) : 200) * 1e-3;
    auto isa = cpu_features().isa;
    std::string mode = argc > 4 ? argv[4] : "";
    if (mode == "avx2") isa = Isa::Avx2;
    Operand wide, blocked;
    wide.dtype = blocked.dtype = DataType::F32;
    blocked.layout = isa >= Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
    if (mode == "plain") blocked = wide;
    if (mode == "bf16") blocked.dtype = DataType::BF16, blocked.layout = Layout::Blocked32;
    bool rounded = mode == "bf16" || mode == "rounded";
    ThreadPool pool(threads);
    FlushDenormals flush;
    for (auto const& s : kShapes) {
        if (std::string(s.name).find(filter) == std::string::npos) continue;
        measure(s, s.channels < 16 ? wide : blocked, blocked, isa, rounded, pool, seconds);
        std::fflush(stdout);
    }
}
