#include "linear_attention/linear_attention.h"

#include "cuda/instances.h"
#include "cuda/kernels.h"

#include <bit>

namespace refactor::kernel::cuda {

namespace {

/// Columns of the state that a block has, each of eight threads.
constexpr int64_t kColumns = kBlockThreads / 8;
/// Rows of the state that a thread keeps in registers.
constexpr int64_t kMostRows = 64;

char const* const kLinearAttentionSource = R"cuda(
// A block for 32 columns of the state of a key head: they do not depend on each other. Eight threads share a column,
// thread i has its rows i, i + 8, ... Words: q, k, v, past, decay, beta, y, present; positions, heads, key heads, D, Dv,
// last sizes of decay and beta, bits (f32) of the scale.
template <class T, int kRows> RG_FN void rg_linear_attention(rg_u64 const* w) {
    typedef rg_wide<T> W;
    unsigned steps = (unsigned)w[8], heads = (unsigned)w[9], key_heads = (unsigned)w[10], depth = (unsigned)w[11];
    unsigned width = (unsigned)w[12], decays = (unsigned)w[13], betas = (unsigned)w[14], group = heads / key_heads;
    unsigned tiles = (width + 31) / 32, column = blockIdx.x % tiles * 32 + threadIdx.x / 8, part = threadIdx.x % 8;
    unsigned head = blockIdx.x / tiles % key_heads, batch = blockIdx.x / tiles / key_heads;
    bool inside = column < width;
    rg_u64 first = ((rg_u64)batch * key_heads + head) * depth * width + column;
    W state[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        unsigned d = part + 8 * i;
        state[i] = w[3] && inside && d < depth ? rg_widen(((T const*)w[3])[first + (rg_u64)d * width]) : W(0);
    }
    for (unsigned t = 0; t < steps; ++t) {
        rg_u64 position = (rg_u64)batch * steps + t;
        T const* k = (T const*)w[1] + (position * key_heads + head) * depth;
        if (w[4]) {
            bool one = decays == key_heads;
            T const* decay = (T const*)w[4] + position * decays + (one ? head : head * depth);
#pragma unroll
            for (int i = 0; i < kRows; ++i)
                if (part + 8 * i < depth) state[i] *= m_exp(rg_widen(decay[one ? 0 : part + 8 * i]));
        }
        W value = inside ? rg_widen(((T const*)w[2])[(position * key_heads + head) * width + column]) : W(0);
        if (w[5]) {
            rg_sum<W> known = {W(0)};
#pragma unroll
            for (int i = 0; i < kRows; ++i)
                if (part + 8 * i < depth) known.v = m_fma(rg_widen(k[part + 8 * i]), state[i], known.v);
            W beta = rg_widen(((T const*)w[5])[position * betas + (betas == 1 ? 0 : head)]);
            value = beta * (value - rg_combined<8>(known).v);
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i)
            if (part + 8 * i < depth) state[i] = m_fma(rg_widen(k[part + 8 * i]), value, state[i]);
        for (unsigned h = head * group; h < (head + 1) * group; ++h) {
            T const* q = (T const*)w[0] + (position * heads + h) * depth;
            rg_sum<W> sum = {W(0)};
#pragma unroll
            for (int i = 0; i < kRows; ++i)
                if (part + 8 * i < depth) sum.v = m_fma(rg_widen(q[part + 8 * i]), state[i], sum.v);
            sum = rg_combined<8>(sum);
            if (part == 0 && inside)
                ((T*)w[6])[(position * heads + h) * width + column] = rg_narrow<T>((W)rg_f32((unsigned)w[15]) * sum.v);
        }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        unsigned d = part + 8 * i;
        if (inside && d < depth) ((T*)w[7])[first + (rg_u64)d * width] = rg_narrow<T>(state[i]);
    }
}
)cuda";

Result<Launches, Rejection> bind_linear_attention(LinearAttentionInfo const& info, BindArgs const& args,
                                                  Instances const& instances) {
    auto const &q = *args.inputs[0], &v = *args.inputs[2];
    auto batch = q.dims[0], steps = q.dims[1], depth = q.dims[2] / info.heads, width = v.dims[2] / info.kv_heads;
    if (info.heads % info.kv_heads)
        return Err{Rejection{std::to_string(info.heads) + " query heads, expected a multiple of " +
                             std::to_string(info.kv_heads) + " key heads"}};
    auto rows = power_of_two(ceil_div(depth, 8));
    if (rows > kMostRows)
        return Err{
            Rejection{"keys of " + std::to_string(depth) + " elements, at most " + std::to_string(8 * kMostRows)}};
    int next = 3;
    auto optional = [&](bool there) { return there ? operand(next++) : kNowhere; };
    auto past = optional(info.past), decay = optional(info.decay), beta = optional(info.delta);
    auto last = [&](Address const& a) {
        return a.operand < 0 ? 0 : args.inputs[static_cast<size_t>(a.operand)]->dims.back();
    };
    std::vector<uint64_t> numbers;
    for (auto number : {steps, info.heads, info.kv_heads, depth, width, last(decay), last(beta),
                        static_cast<int64_t>(std::bit_cast<uint32_t>(info.scale))})
        numbers.push_back(static_cast<uint64_t>(number));
    Launches launches;
    launches.operations = 2. * static_cast<double>(batch * steps * depth * width) *
                          static_cast<double>(info.heads + info.kv_heads * (1 + info.decay + info.delta));
    launches.list.push_back(instances.launch(
        "rg_linear_attention", template_text("rg_linear_attention", element_text(q.dtype), rows),
        batch * info.kv_heads * ceil_div(width, kColumns),
        {operand(0), operand(1), operand(2), past, decay, beta, operand(next), operand(next + 1)}, std::move(numbers)));
    return launches;
}

}  // namespace

MaybeKernel linear_attention_nvrtc(LinearAttentionInfo const& info, Request const& request) {
    return make_instances(info, request, "linear_attention", request.inputs[0].dtype, kLinearAttentionSource,
                          make_linear_attention_reference, bind_linear_attention);
}

}  // namespace refactor::kernel::cuda
