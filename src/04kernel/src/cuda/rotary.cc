#include "kernel/ops/rotary.h"

#include "conv/geometry.h"
#include "cuda/instances.h"

#include <array>

namespace refactor::kernel {

namespace cuda {

namespace {

char const* const kFamily = R"cuda(
// Words: x, cos, sin, y; items; then in vectors: half, what is behind both halves, a row; sizes of the leading axes and
// their steps in cos and sin. An item is a vector of pairs, or one that stays.
template <class T, int kVector, int kRank, bool kInterleaved, bool kBoth, class Index> RG_FN void rg_rotary(rg_u64 const* w) {
    typedef rg_vec<T, kVector> Vector;
    const Index half = (Index)w[5], each = half + (Index)w[6];
    RG_FOR(Index, item, (Index)w[4]) {
        const Index row = item / each, i = item - row * each;
        Vector const* x = (Vector const*)w[0] + row * (Index)w[7];
        Vector* y = (Vector*)w[3] + row * (Index)w[7];
        if (i >= half) {
            y[i + half] = x[i + half];
            continue;
        }
        const Index angle = rg_offset<kRank, Index>(row, w + 8) + (kBoth && kInterleaved ? 2 * i : i);
        const Index second = kBoth ? angle + (kInterleaved ? 1 : half) : angle;
        Vector const *all_cos = (Vector const*)w[1], *all_sin = (Vector const*)w[2];
        const Vector in[2] = {x[kInterleaved ? 2 * i : i], x[kInterleaved ? 2 * i + 1 : i + half]};
        const Vector cos[2] = {all_cos[angle], all_cos[second]}, sin[2] = {all_sin[angle], all_sin[second]};
        Vector out[2];
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
            // Places of a pair in two vectors, and of its angles.
            const int at = kInterleaved ? 2 * e : e, next = kInterleaved ? at + 1 : at + kVector;
            const int a = kBoth ? at : e, b = kBoth ? next : e + kVector;
            const auto p = rg_widen(in[at / kVector].v[at % kVector]), q = rg_widen(in[next / kVector].v[next % kVector]);
            const auto first_cos = rg_widen(cos[a / kVector].v[a % kVector]), first_sin = rg_widen(sin[a / kVector].v[a % kVector]);
            const auto other_cos = rg_widen(cos[b / kVector].v[b % kVector]), other_sin = rg_widen(sin[b / kVector].v[b % kVector]);
            out[at / kVector].v[at % kVector] = rg_narrow<T>(p * first_cos - q * first_sin);
            out[next / kVector].v[next % kVector] = rg_narrow<T>(q * other_cos + p * other_sin);
        }
        y[kInterleaved ? 2 * i : i] = out[0], y[kInterleaved ? 2 * i + 1 : i + half] = out[1];
    }
}
)cuda";

/// Why angles of these dims are none for X, or empty.
std::string why_not_angles(RotaryInfo const& info, Dims const& x, Dims const& angles) {
    auto fits = angles.size() == x.size() && angles.back() == (info.both ? 2 : 1) * info.half;
    for (size_t axis = 0; fits && axis + 1 < x.size(); ++axis) fits = angles[axis] == x[axis] || angles[axis] == 1;
    return fits ? "" : "angles " + dims_text(angles) + " for X " + dims_text(x);
}

Result<Launches, Rejection> bind(RotaryInfo const& info, BindArgs const& args, Instances const& code) {
    auto const& x = *args.inputs[0];
    auto const& angles = args.inputs[1]->dims;
    if (info.half < 1 || 2 * info.half > x.dims.back() || args.outputs[0]->dims != x.dims ||
        angles != args.inputs[2]->dims)
        return Err{Rejection{"half of " + std::to_string(info.half) + " for X " + dims_text(x.dims)}};
    if (auto why = why_not_angles(info, x.dims, angles); !why.empty()) return Err{Rejection{why}};
    auto const depth = x.dims.back(), rows = depth ? x.count() / depth : 0;
    std::array const steps{info.half, depth};
    auto vector = int64_t{vector_width(x.dtype, steps)};
    std::vector<uint64_t> sizes, offsets;
    auto step = angles.back() / vector;
    for (auto axis = x.dims.size() - 1; axis-- > 0; step *= angles[axis]) {
        sizes.insert(sizes.begin(), static_cast<uint64_t>(x.dims[axis]));
        offsets.insert(offsets.begin(), static_cast<uint64_t>(angles[axis] == 1 ? 0 : step));
    }
    auto items = rows * (depth - info.half) / vector;
    if (items == 0) return Launches{};
    std::vector<uint64_t> numbers;
    for (auto number : {items, info.half / vector, (depth - 2 * info.half) / vector, depth / vector})
        numbers.push_back(static_cast<uint64_t>(number));
    numbers.insert(numbers.end(), sizes.begin(), sizes.end());
    numbers.insert(numbers.end(), offsets.begin(), offsets.end());
    auto call = template_text("rg_rotary", element_text(x.dtype), vector, static_cast<int64_t>(sizes.size()),
                              info.interleaved, info.both, x.count() < int64_t{1} << 30 ? "unsigned" : "rg_u64");
    Launches launches{{code.launch("rg_rotary", call, blocks_for(items, 256),
                                   {operand(0), operand(1), operand(2), operand(3)}, numbers)}};
    launches.operations = 3. * static_cast<double>(rows * 2 * info.half);
    launches.in_place = 1;
    return launches;
}

Result<std::unique_ptr<Kernel>, Rejection> rotary_nvrtc(RotaryInfo const& info, Request const& request) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    auto type = request.inputs[0].dtype;
    for (auto const* list : {&request.inputs, &request.outputs})
        for (auto const& operand : *list)
            if (operand.dtype != type || operand.layout != Layout::Plain || !is_float(type) || !element_text(type))
                return Err{Rejection{"expects floats of one type in the plain layout"}};
    return std::unique_ptr<Kernel>(std::make_unique<LaunchKernel<RotaryInfo, Instances>>(
        info, id_of("rotary", "nvrtc", type), nullptr, bind, *library, kFamily));
}

}  // namespace

}  // namespace cuda

std::string RotaryInfo::attributes() const {
    return "half=" + std::to_string(half) + (interleaved ? ",interleaved" : "") + (both ? ",both" : "");
}

Candidates candidates(RotaryInfo const& info, Request const& request) {
    Candidates result;
    if (request.device == "cpu")
        result.rejections.push_back({"rotary:cpu: elementwise steps turn pairs there"});
    else
        result.add("rotary:nvidia:nvrtc", cuda::rotary_nvrtc(info, request));
    return result;
}

}  // namespace refactor::kernel
