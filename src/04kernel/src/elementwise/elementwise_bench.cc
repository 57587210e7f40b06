// elementwise_bench: cost of tile programs on one thread, and throughput of movement kernels.
//   small: ns a run for one instruction, and for a chain of 100, on one element; ns to bind
//   large: GB/s of chains over tensors that fit L2, L3 and neither
//   blocks: µs of a normalisation and of a scale for each channel of images, f32 in nChw16c and bf16 in nChw32c
//   images: µs of resizing images in blocks of channels to twice their size and of joining two, f32 and bf16 likewise
//   move:  GB/s (read + written) of typical transpositions against memcpy
#include "common/thread_pool.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/movement.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "runtime/task_memory.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>

namespace {

using namespace refactor;
using namespace refactor::kernel;

/// Smallest time of a call in ns over 7 rounds of at least 2 ms.
template <class F>
double time_of(F&& f) {
    using Clock = std::chrono::steady_clock;
    double best = 1e30;
    int64_t calls = 1;
    for (int round = 0; round < 7;) {
        auto start = Clock::now();
        for (int64_t i = 0; i < calls; ++i) f();
        auto ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
        if (ns < 2e6) {
            calls *= 2;
            continue;
        }
        best = std::min(best, ns / static_cast<double>(calls));
        ++round;
    }
    return best;
}

Operand operand(Dims dims) {
    Operand o;
    o.dtype = DataType::F32, o.dims = dims;
    return o;
}

struct Bound {
    std::unique_ptr<runtime::Task> task;
    std::vector<std::shared_ptr<mem_manager::Blob>> data;
    std::vector<void*> arguments;
    std::optional<runtime::TaskMemory> memory;
    double bind_ns = 0;

    void run() {
        static ThreadPool pool(1);
        task->run(arguments.data(), memory->context(pool));
    }
};

template <class Info>
Bound bind(Info const& info, std::vector<Operand> in, std::vector<Operand> out) {
    Bound b;
    auto kernels = candidates(info, {in, out, "cpu", cpu_features().isa, 1, Precision::Default});
    std::vector<TensorDesc const*> x, y;
    for (auto& o : in) x.push_back(&o);
    for (auto& o : out) y.push_back(&o);
    PackCache packs;
    BindArgs args{x, y, {}, packs, 1};
    auto& kernel = *kernels.kernels.at(0);
    b.bind_ns = time_of([&] { (void)kernel.bind(args); });
    b.task = std::move(kernel.bind(args)).value();
    for (auto* list : {&in, &out})
        for (auto& o : *list) {
            auto count = static_cast<size_t>(o.stored_count()) + 16;
            auto blob = mem_manager::Blob::make(mem_manager::cpu_device(), count * sizeof(float));
            std::fill_n(static_cast<float*>(blob->data()), count, 0.5f);
            b.arguments.push_back(blob->data());
            b.data.push_back(std::move(blob));
        }
    b.memory.emplace(*b.task, 1);
    return b;
}

ElementwiseInfo chain(std::vector<ExprOp> const& ops, bool second = false) {
    ElementwiseInfo info;
    info.code.push_back({ExprOp::Input, DataType::F32, {0}});
    if (second) info.code.push_back({ExprOp::Input, DataType::F32, {1}});
    for (auto op : ops) {
        auto last = static_cast<uint16_t>(info.code.size() - 1);
        info.code.push_back({op, DataType::F32, {last, 0, 0}});
    }
    info.outputs = {static_cast<uint16_t>(info.code.size() - 1)};
    return info;
}

void small() {
    auto add = bind(chain({ExprOp::Add}, true), {operand({1}), operand({1})}, {operand({1})});
    std::printf("add, 1 element       %8.1f ns run %8.0f ns bind\n", time_of([&] { add.run(); }), add.bind_ns);
    std::vector<ExprOp> ops;
    for (int i = 0; i < 50; ++i) ops.push_back(ExprOp::Add), ops.push_back(ExprOp::Tanh);
    auto hundred = bind(chain(ops), {operand({1})}, {operand({1})});
    std::printf("100 ops, 1 element   %8.1f ns run %8.0f ns bind\n", time_of([&] { hundred.run(); }), hundred.bind_ns);
    auto bias = bind(chain({ExprOp::Add}, true), {operand({128, 768}), operand({768})}, {operand({128, 768})});
    std::printf("bias 128x768         %8.1f ns run %8.0f ns bind\n", time_of([&] { bias.run(); }), bias.bind_ns);
    auto mapped =
        bind(chain({ExprOp::Mul}, true), {operand({1, 512, 7, 7}), operand({512, 1, 1})}, {operand({1, 512, 7, 7})});
    std::printf("scale 512x7x7        %8.1f ns run %8.0f ns bind\n", time_of([&] { mapped.run(); }), mapped.bind_ns);
}

void large() {
    struct {
        char const* name;
        std::vector<ExprOp> ops;
    } const chains[] = {{"relu", {ExprOp::Relu}},
                        {"add", {ExprOp::Add}},
                        {"5 cheap", {ExprOp::Add, ExprOp::Mul, ExprOp::Relu, ExprOp::Sub, ExprOp::Max}},
                        {"exp", {ExprOp::Exp}},
                        {"sigmoid", {ExprOp::Sigmoid}},
                        {"tanh", {ExprOp::Tanh}},
                        {"gelu", {ExprOp::GeluErf}},
                        {"sin", {ExprOp::Sin}}};
    for (int64_t n : {int64_t{32} << 10, int64_t{1} << 20, int64_t{16} << 20}) {
        auto copy = bind(CopyInfo{}, {operand({n})}, {operand({n})});
        std::printf("%9ld elements: memcpy %.1f GB/s;", static_cast<long>(n),
                    8. * static_cast<double>(n) / time_of([&] { copy.run(); }));
        for (auto const& c : chains) {
            auto b = bind(chain(c.ops), {operand({n})}, {operand({n})});
            std::printf(" %s %.1f", c.name, 8. * static_cast<double>(n) / time_of([&] { b.run(); }));
        }
        std::printf("\n");
    }
}

/// Of images of f32 or, computed in f32, of bf16: max(x * scale + bias, 0), or x * scale.
ElementwiseInfo channelwise(DataType type, bool normalises) {
    ElementwiseInfo info;
    auto& code = info.code;
    auto add = [&](ExprInstruction instruction) {
        code.push_back(instruction);
        return static_cast<uint16_t>(code.size() - 1);
    };
    constexpr auto kF32 = DataType::F32;
    auto value = add({ExprOp::Input, type, {0}}), scale = add({ExprOp::Input, kF32, {1}});
    if (type != kF32) value = add({ExprOp::Cast, kF32, {value}});
    if (normalises) {
        auto bias = add({ExprOp::Input, kF32, {2}});
        value = add({ExprOp::Fma, kF32, {value, scale, bias}});
        value = add({ExprOp::Relu, kF32, {value}});
    } else {
        value = add({ExprOp::Mul, kF32, {value, scale}});
    }
    if (type != kF32) value = add({ExprOp::Cast, type, {value}});
    info.outputs = {value};
    return info;
}

void blocks() {
    for (Dims dims : {Dims{1, 256, 56, 56}, Dims{1, 96, 56, 56}, Dims{1, 144, 56, 56}, Dims{1, 512, 28, 28},
                      Dims{1, 512, 7, 7}, Dims{1, 64, 14, 14}})
        for (bool normalises : {true, false}) {
            auto measured = [&](DataType type, Layout layout) {
                Operand image = operand(dims), scale = operand({dims[1], 1, 1});
                image.dtype = type, image.layout = layout;
                std::vector<Operand> inputs{image, scale};
                if (normalises) inputs.push_back(scale);
                auto task = bind(channelwise(type, normalises), inputs, {image});
                return time_of([&] { task.run(); }) / 1e3;
            };
            std::printf("%4ld x %2ld x %2ld %-9s f32 %8.2f us, bf16 %8.2f us\n", static_cast<long>(dims[1]),
                        static_cast<long>(dims[2]), static_cast<long>(dims[3]), normalises ? "bn+relu" : "scale",
                        measured(DataType::F32, Layout::Blocked16), measured(DataType::BF16, Layout::Blocked32));
        }
}

void images() {
    constexpr std::pair<DataType, Layout> kImages[] = {{DataType::F32, Layout::Blocked16},
                                                       {DataType::BF16, Layout::Blocked32}};
    auto image = [](Dims dims, std::pair<DataType, Layout> kind) {
        auto o = operand(dims);
        o.dtype = kind.first, o.layout = kind.second;
        return o;
    };
    for (int64_t channels : {64, 256})
        for (auto mode : {ResizeMode::Nearest, ResizeMode::Linear}) {
            std::printf("%s %4ld x 40 x 40:", mode == ResizeMode::Linear ? "linear " : "nearest",
                        static_cast<long>(channels));
            for (auto kind : kImages) {
                ResizeInfo info;
                info.mode = mode;
                auto b = bind(info, {image({1, channels, 40, 40}, kind)}, {image({1, channels, 80, 80}, kind)});
                std::printf(" %8.2f us", time_of([&] { b.run(); }) / 1e3);
            }
            std::printf("\n");
        }
    for (int64_t channels : {32, 40}) {
        std::printf("concat %ld + 64:", static_cast<long>(channels));
        for (auto kind : kImages) {
            auto b = bind(ConcatInfo{1}, {image({1, channels, 56, 56}, kind), image({1, 64, 56, 56}, kind)},
                          {image({1, channels + 64, 56, 56}, kind)});
            std::printf(" %8.2f us", time_of([&] { b.run(); }) / 1e3);
        }
        std::printf("\n");
    }
}

void move() {
    struct {
        char const* name;
        Dims dims, perm;
    } const cases[] = {{"heads 128x12x64", {1, 128, 12, 64}, {0, 2, 1, 3}},
                       {"keys 12x128x64", {1, 12, 128, 64}, {0, 1, 3, 2}},
                       {"matrix 768x3072", {768, 3072}, {1, 0}},
                       {"nchw to nhwc 64x56x56", {1, 64, 56, 56}, {0, 2, 3, 1}},
                       {"shuffle 2x58x28x28", {1, 2, 58, 784}, {0, 2, 1, 3}}};
    for (auto const& c : cases) {
        Dims out;
        for (auto axis : c.perm) out.push_back(c.dims[axis]);
        auto b = bind(TransposeInfo{c.perm}, {operand(c.dims)}, {operand(out)});
        auto copy = bind(CopyInfo{}, {operand(c.dims)}, {operand(c.dims)});
        auto bytes = 8. * static_cast<double>(element_count(c.dims));
        std::printf("%-24s %6.1f GB/s, memcpy %6.1f, bind %5.0f ns\n", c.name, bytes / time_of([&] { b.run(); }),
                    bytes / time_of([&] { copy.run(); }), b.bind_ns);
    }
}

}  // namespace

int main(int argc, char** argv) {
    auto wanted = [&](char const* name) { return argc < 2 || std::strcmp(argv[1], name) == 0; };
    if (wanted("small")) small();
    if (wanted("large")) large();
    if (wanted("blocks")) blocks();
    if (wanted("images")) images();
    if (wanted("move")) move();
}
