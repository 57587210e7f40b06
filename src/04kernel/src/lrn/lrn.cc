#include "lrn/lrn.h"

#include "cuda/kernels.h"
#include "lrn/lrn_tile.h"
#include "movement/ranges.h"
#include "reduce/scalar_type.h"

#include <cmath>

namespace refactor::kernel {

using movement::make_task;
using movement::TaskResult;

std::string LrnInfo::attributes() const {
    return "size=" + std::to_string(size) + ",alpha=" + exact_text(alpha) + ",beta=" + exact_text(beta) +
           ",bias=" + exact_text(bias);
}

Candidates candidates(LrnInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("lrn:nvidia:nvrtc", cuda::lrn_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "lrn/lrn_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

struct Shapes {
    int64_t batch, channels, positions;
};

Result<Shapes, Rejection> shapes_of(BindArgs const& args) {
    auto const &x = args.inputs[0]->dims, &y = args.outputs[0]->dims;
    if (x.size() < 2 || x != y)
        return Err{Rejection{"input " + movement::to_string(x) + ", output " + movement::to_string(y)}};
    return Shapes{x[0], x[1], movement::count_of(x, 2, x.size())};
}

template <class T>
void normalize(LrnInfo const& info, Shapes const& s, T const* x, T* y) {
    auto before = (info.size - 1) / 2, after = info.size / 2;
    for (int64_t c = 0; c < s.channels; ++c) {
        auto first = std::max<int64_t>(0, c - before), last = std::min(s.channels - 1, c + after);
        for (int64_t i = 0; i < s.positions; ++i) {
            double sum = 0;
            for (auto k = first; k <= last; ++k) {
                double value = widen(x[k * s.positions + i]);
                sum += value * value;
            }
            auto base =
                static_cast<double>(info.bias) + static_cast<double>(info.alpha) / static_cast<double>(info.size) * sum;
            y[c * s.positions + i] =
                narrow<T>(widen(x[c * s.positions + i]) / std::pow(base, static_cast<double>(info.beta)));
        }
    }
}

TaskResult bind_reference(LrnInfo const& info, BindArgs const& args, Isa) {
    auto shapes = shapes_of(args);
    if (!shapes) return Err{shapes.error()};
    return make_task([info, s = *shapes, type = args.inputs[0]->dtype](void* const* a, runtime::RunContext const&) {
        visit_float(type, [&](auto tag) {
            using T = typename decltype(tag)::type;
            auto size = s.channels * s.positions;
            for (int64_t n = 0; n < s.batch; ++n)
                normalize(info, s, static_cast<T const*>(a[0]) + n * size, static_cast<T*>(a[1]) + n * size);
        });
    });
}

#if RG_X86
TaskResult bind_tiles(LrnInfo const& info, BindArgs const& args, Isa isa) {
    auto shapes = shapes_of(args);
    if (!shapes) return Err{shapes.error()};
    auto* run = isa >= Isa::Avx512 ? lrn_tile_avx512 : lrn_tile_avx2;
    auto scratch = static_cast<size_t>((info.size + 1) * kLrnStrip);
    auto body = [=, s = *shapes](void* const* a, runtime::RunContext const& context) {
        auto strips = (s.positions + kLrnStrip - 1) / kLrnStrip;
        context.pool.parallel_for(s.batch * strips, [&](int64_t i, int worker) {
            auto n = i / strips, first = i % strips * kLrnStrip, at = n * s.channels * s.positions + first;
            run({static_cast<float const*>(a[0]) + at, static_cast<float*>(a[1]) + at,
                 reinterpret_cast<float*>(context.scratch_of(worker)), s.channels, s.positions,
                 std::min(kLrnStrip, s.positions - first), info.size, info.alpha / static_cast<float>(info.size),
                 info.beta, info.bias});
        });
    };
    return make_task(body, 1, 0, scratch * sizeof(float));
}
#endif

}  // namespace

movement::KernelResult lrn_tiles(LrnInfo const& info, Request const& request) {
    if (auto no = movement::refuse(request)) return Err{*no};
    if (request.inputs[0].dtype != DataType::F32)
        return Err{Rejection{"input of " + std::string(name_of(request.inputs[0].dtype)) + ", expected f32"}};
    // Beyond, the squares of a window leave the caches.
    if (info.size > 64) return Err{Rejection{"windows of " + std::to_string(info.size) + " channels, at most 64"}};
#if RG_X86
    if (request.isa >= Isa::Avx2) {
        auto isa = request.isa >= Isa::Avx512 ? Isa::Avx512 : Isa::Avx2;
        return movement::KernelResult(std::make_unique<movement::InfoKernel<LrnInfo>>(
            info, movement::make_id("lrn", "tiles", request, name_of(isa)), isa, bind_tiles));
    }
#endif
    return Err{Rejection{"needs avx2, allowed is " + std::string(name_of(request.isa))}};
}

movement::KernelResult lrn_reference(LrnInfo const& info, Request const& request) {
    if (auto no = movement::refuse(request)) return Err{*no};
    if (!is_any_float(request.inputs[0].dtype))
        return Err{Rejection{"input of " + std::string(name_of(request.inputs[0].dtype)) + ", expected floats"}};
    return movement::make_kernel(info, "lrn", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
