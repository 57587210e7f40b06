#include "cuda/movement_kernels.h"
#include "svm/svm.h"

namespace refactor::kernel {

using namespace movement;

Candidates candidates(SquaredDistanceInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("squared_distance:nvidia:nvrtc", cuda::squared_distance_nvrtc(info, request));
        return result;
    }
    result.add("squared_distance:cpu:columns", squared_distance_columns(info, request));
    return result;
}

namespace {

/// Vectors whose sums are in flight: 16 SSE registers of f32 less what the operands take, and a multiple of a cache
/// line.
constexpr int64_t kLanes = 32;

struct Sizes {
    int64_t rows, features, vectors;
};

/// Distances of one row to `kLanes` vectors whose features lie side by side.
void distances(float const* x, float const* packed, int64_t features, float* y) {
    float sums[kLanes]{};
    for (int64_t f = 0; f < features; ++f)
        for (int64_t v = 0; v < kLanes; ++v) {
            auto d = x[f] - packed[f * kLanes + v];
            sums[v] += d * d;
        }
    for (int64_t v = 0; v < kLanes; ++v) y[v] = sums[v];
}

void pack(float const* vectors, Sizes const& s, int64_t first, float* packed) {
    for (int64_t v = 0; v < kLanes; ++v)
        for (int64_t f = 0; f < s.features; ++f)
            packed[f * kLanes + v] = first + v < s.vectors ? vectors[(first + v) * s.features + f] : 0;
}

TaskResult bind(SquaredDistanceInfo const&, BindArgs const& args, Isa) {
    auto const &x = args.inputs[0]->dims, &v = args.inputs[1]->dims;
    if (x.size() != 2 || v.size() != 2 || x[1] != v[1])
        return Err{Rejection{"inputs " + to_string(x) + " and " + to_string(v) + ", expected [N, F] and [V, F]"}};
    Sizes s{x[0], x[1], v[0]};
    auto scratch = static_cast<size_t>(s.features * kLanes) * sizeof(float) + 64;
    return make_task(
        [s, threads = args.threads](void* const* a, runtime::RunContext const& context) {
            auto *rows = static_cast<float const*>(a[0]), *vectors = static_cast<float const*>(a[1]);
            auto* y = static_cast<float*>(a[2]);
            auto blocks = (s.vectors + kLanes - 1) / kLanes;
            auto block = [&](int64_t i, int worker) {
                auto* packed = reinterpret_cast<float*>(context.scratch_of(worker));
                pack(vectors, s, i * kLanes, packed);
                auto count = std::min(kLanes, s.vectors - i * kLanes);
                for (int64_t r = 0; r < s.rows; ++r) {
                    float sums[kLanes];
                    distances(rows + r * s.features, packed, s.features, sums);
                    std::copy_n(sums, count, y + r * s.vectors + i * kLanes);
                }
            };
            // About 4 terms a ns; 20 µs pay for a fork-join of 1 µs.
            if (threads == 1 || s.rows * s.features * s.vectors < 80000)
                for (int64_t i = 0; i < blocks; ++i) block(i, ThreadPool::worker_number() % threads);
            else
                context.pool.parallel_for(blocks, block);
        },
        0, 0, scratch);
}

}  // namespace

KernelResult squared_distance_columns(SquaredDistanceInfo const& info, Request const& request) {
    if (auto no = refuse(request, {.min_inputs = 2, .max_inputs = 2})) return Err{*no};
    if (request.inputs[0].dtype != DataType::F32 || request.inputs[1].dtype != DataType::F32)
        return Err{Rejection{"inputs of " + std::string(name_of(request.inputs[0].dtype)) + " and " +
                             std::string(name_of(request.inputs[1].dtype)) + ", expected f32"}};
    return make_kernel(info, "squared_distance", "columns", request, bind);
}

}  // namespace refactor::kernel
