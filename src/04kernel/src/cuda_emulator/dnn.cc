#include "cuda_emulator/device.h"
#include "cuda_emulator/elements.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <variant>
#include <vector>

namespace refactor::cuda_emulator {

namespace {

constexpr size_t kWorkspaceBytes = 640;

struct Plan {
    std::variant<RefactorConvolution, RefactorAttention> asked;
};

int32_t version(char* text, size_t text_bytes) {
    Complaint say{text, text_bytes};
    if (std::getenv("REFACTOR_GRAPH_EMULATED_DNN")) return say(0, "emulated cuDNN");
    return say(kFailure, "cuDNN: REFACTOR_GRAPH_EMULATED_DNN is not set");
}

int32_t create(Plan plan, int32_t rank, void** made, size_t* workspace_bytes, Complaint complain) {
    if (rank > 1) return complain(kFailure, "cuDNN: no engine for this graph");
    *made = new Plan(plan), *workspace_bytes = kWorkspaceBytes;
    return 0;
}

/// Engines for what cuDNN has engines for: relu or clip at the end, nothing behind a transposed convolution. None if
/// the environment asks for those of attention alone.
int32_t convolution_check(char const*, RefactorConvolution const* c, char* text, size_t text_bytes) {
    auto const* asked = std::getenv("REFACTOR_GRAPH_EMULATED_DNN");
    if (asked && asked == std::string_view("attention"))
        return Complaint{text, text_bytes}(kFailure, "cuDNN: no engine for this graph");
    bool follows = c->bias || c->residual || c->activation;
    if (c->activation > 2 || c->residual_last || (c->transposed && follows))
        return Complaint{text, text_bytes}(kFailure, "cuDNN: no engine for this graph");
    return 0;
}

int32_t attention_check(char const*, RefactorAttention const* a, char* text, size_t text_bytes) {
    Complaint complain{text, text_bytes};
    if (a->depth % 8 || a->value_depth % 8) return complain(kFailure, "cuDNN: a depth that is no multiple of 8");
    int64_t const scores[4]{a->batch, a->heads, a->queries, a->keys};
    for (int i = 0; i < 4; ++i)
        if (a->bias[i] && a->bias[i] != 1 && a->bias[i] != scores[i])
            return complain(kFailure, "cuDNN: a bias that does not fit");
    if (a->causal && a->queries > a->keys) return complain(kFailure, "cuDNN: rows without a visible key");
    return 0;
}

int32_t convolution_create(void*, RefactorConvolution const* c, int32_t rank, void** plan, size_t* workspace_bytes,
                           char* text, size_t text_bytes) {
    if (auto code = convolution_check(nullptr, c, text, text_bytes)) return code;
    return create({*c}, rank, plan, workspace_bytes, {text, text_bytes});
}

int32_t attention_create(void*, RefactorAttention const* a, int32_t rank, void** plan, size_t* workspace_bytes,
                         char* text, size_t text_bytes) {
    if (auto code = attention_check(nullptr, a, text, text_bytes)) return code;
    return create({*a}, rank, plan, workspace_bytes, {text, text_bytes});
}

void destroy(void* plan) { delete static_cast<Plan*>(plan); }

int64_t product(int64_t const (&sizes)[3]) { return sizes[0] * sizes[1] * sizes[2]; }

/// Calls `f(tap, input position, output position)` for every product of a pair of channels. Transposed, the parts of
/// input and output are exchanged.
template <class F>
void for_products(RefactorConvolution const& c, F&& f) {
    auto const &narrow = c.transposed ? c.out : c.in, &wide = c.transposed ? c.in : c.out;
    for (int64_t w = 0; w < product(wide); ++w)
        for (int64_t t = 0; t < product(c.kernel); ++t) {
            int64_t const at[3]{w / wide[2] / wide[1], w / wide[2] % wide[1], w % wide[2]};
            int64_t const tap[3]{t / c.kernel[2] / c.kernel[1], t / c.kernel[2] % c.kernel[1], t % c.kernel[2]};
            int64_t n = 0;
            bool inside = true;
            for (int i = 0; i < 3; ++i) {
                auto place = at[i] * c.stride[i] - c.pad_begin[i] + tap[i] * c.dilation[i];
                inside &= place >= 0 && place < narrow[i];
                n = n * narrow[i] + place;
            }
            if (inside) f(t, c.transposed ? w : n, c.transposed ? n : w);
        }
}

/// Of an element of a tensor [first, channels, positions], whose channels may be last.
int64_t place(RefactorConvolution const& c, int64_t first, int64_t channels, int64_t channel, int64_t positions,
              int64_t position) {
    return c.channels_last ? (first * positions + position) * channels + channel
                           : (first * channels + channel) * positions + position;
}

void convolve(RefactorConvolution const& c, std::array<void const*, 4> const& host, void* y) {
    auto in_group = c.in_channels / c.groups, out_group = c.out_channels / c.groups, taps = product(c.kernel);
    auto in = product(c.in), out = product(c.out);
    std::vector<double> sums(static_cast<size_t>(out));
    for (int64_t image = 0; image < c.batch; ++image)
        for (int64_t m = 0; m < c.out_channels; ++m) {
            std::fill(sums.begin(), sums.end(), 0.);
            for (int64_t k = 0; k < in_group; ++k) {
                auto channel = m / out_group * in_group + k;
                for_products(c, [&](int64_t tap, int64_t from, int64_t to) {
                    auto weight = c.transposed ? place(c, channel, out_group, m % out_group, taps, tap)
                                               : place(c, m, in_group, k, taps, tap);
                    sums[static_cast<size_t>(to)] +=
                        load(c.dtype, host[1], weight) *
                        load(c.dtype, host[0], place(c, image, c.in_channels, channel, in, from));
                });
            }
            for (int64_t i = 0; i < out; ++i) {
                auto at = place(c, image, c.out_channels, m, out, i);
                auto value = sums[static_cast<size_t>(i)];
                if (c.bias) value += load(c.dtype, host[2], m);
                if (c.residual) value += load(c.dtype, host[3], at);
                value = c.activation == 2 ? std::min(std::max(value, c.alpha), c.beta) : activated(c.activation, value);
                store(c.dtype, y, at, value);
            }
        }
}

/// The place of a score's bias, which is repeated along axes of size 1.
int64_t bias_at(RefactorAttention const& a, int64_t batch, int64_t head, int64_t query, int64_t key) {
    int64_t const place[4]{batch, head, query, key};
    int64_t at = 0;
    for (int i = 0; i < 4; ++i) at = at * a.bias[i] + (a.bias[i] == 1 ? 0 : place[i]);
    return at;
}

void attend(RefactorAttention const& a, std::array<void const*, 4> const& host, void* y) {
    std::vector<double> weights(static_cast<size_t>(a.keys));
    for (int64_t row = 0; row < a.batch * a.heads * a.queries; ++row) {
        auto head = row / a.queries % a.heads, batch = row / a.queries / a.heads;
        auto query = row % a.queries, kv_head = head / (a.heads / a.kv_heads);
        auto at = [&](RefactorSteps const& s, int64_t of_head, int64_t number) {
            return batch * s.batch + of_head * s.head + number * s.row;
        };
        double largest = -INFINITY, sum = 0;
        for (int64_t t = 0; t < a.keys; ++t) {
            double score = 0;
            for (int64_t d = 0; d < a.depth; ++d)
                score +=
                    load(a.dtype, host[0], at(a.q, head, query) + d) * load(a.dtype, host[1], at(a.k, kv_head, t) + d);
            score *= a.scale;
            if (a.bias[0]) score += load(a.dtype, host[3], bias_at(a, batch, head, query, t));
            if (a.causal && t > a.keys - a.queries + query) score = -INFINITY;
            weights[static_cast<size_t>(t)] = score, largest = std::max(largest, score);
        }
        for (auto& weight : weights) sum += weight = std::exp(weight - largest);
        for (int64_t d = 0; d < a.value_depth; ++d) {
            double value = 0;
            for (int64_t t = 0; t < a.keys; ++t)
                value += weights[static_cast<size_t>(t)] * load(a.dtype, host[2], at(a.v, kv_head, t) + d);
            store(a.dtype, y, at(a.y, head, query) + d, value / sum);
        }
    }
}

int32_t run(void* plan, void* stream, void const* const* operands, void* y, void* workspace, char* text,
            size_t text_bytes) {
    auto const asked = static_cast<Plan const*>(plan)->asked;
    auto const* convolution = std::get_if<RefactorConvolution>(&asked);
    auto& memory = static_cast<Stream*>(stream)->device->memory;
    bool biased = !convolution && std::get<RefactorAttention>(asked).bias[0];
    bool const there[4]{true, true, !convolution || convolution->bias,
                        convolution ? convolution->residual != 0 : biased};
    std::array<void const*, 4> host{};
    if (reinterpret_cast<uintptr_t>(workspace) % 128)
        return Complaint{text, text_bytes}(kFailure, "the workspace is at no multiple of 128 bytes");
    bool known = memory.host(workspace, kWorkspaceBytes) != nullptr;
    for (size_t i = 0; i < 4; ++i)
        if (there[i]) known &= (host[i] = memory.host(operands[i])) != nullptr;
    auto* result = memory.host(y);
    if (!known || !result)
        return Complaint{text, text_bytes}(kIllegalAddress, "an operand is not in the device's memory");
    return static_cast<Stream*>(stream)->perform(text, text_bytes, [asked, host, result](char*, size_t) {
        if (auto const* window = std::get_if<RefactorConvolution>(&asked))
            convolve(*window, host, result);
        else
            attend(std::get<RefactorAttention>(asked), host, result);
        return 0;
    });
}

}  // namespace

RefactorDeviceDnn const& dnn_table() {
    static constexpr RefactorDeviceDnn kTable{sizeof(RefactorDeviceDnn), version,        convolution_create,
                                              attention_create,          destroy,        run,
                                              convolution_check,         attention_check};
    return kTable;
}

}  // namespace refactor::cuda_emulator
