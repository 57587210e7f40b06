#include "recurrent/recurrent.h"

#include "common/error.h"
#include "cuda/kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace refactor::kernel {
namespace {

std::string text_of(std::span<int64_t const> dims) {
    std::string text = "[";
    for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
    return text + "]";
}

std::string_view name_of(RecurrentCell cell) {
    return cell == RecurrentCell::Lstm ? "lstm" : cell == RecurrentCell::Gru ? "gru" : "rnn";
}

/// Of one element, [directions] or [directions, columns].
std::string steps_of(Dims const& dims, int64_t directions, int64_t columns, std::string_view role, int64_t& step,
                     bool& many) {
    auto count = element_count(std::span<int64_t const>(dims));
    many = count == directions * columns && count != directions;
    step = count == 1 ? 0 : many ? columns : 1;
    if (count == 1 || count == directions || many) return {};
    return std::string(role) + " is " + text_of(dims) + ", expected [" + std::to_string(directions) + "] or [" +
           std::to_string(directions) + ", " + std::to_string(columns) + "]";
}

}  // namespace

CodeRange code_range(float low, float high) {
    low = std::min(low, 0.f), high = std::max(high, 0.f);
    auto scale = (high - low) / 255;
    if (!std::isfinite(scale)) return {std::numeric_limits<float>::quiet_NaN(), 0};
    if (scale < std::numeric_limits<float>::min()) return {};
    return {scale, static_cast<int32_t>(std::clamp(std::nearbyint(-low / scale), 0.f, 255.f))};
}

std::string why_not_quantized(RecurrentInfo const& info, Request const& request) {
    if (!info.quantized) return "weights are floats, expected bytes";
    if (info.cell != RecurrentCell::Lstm) return "quantised weights of " + std::string(name_of(info.cell));
    auto dtype = [&](size_t i) { return request.inputs[i].dtype; };
    if (dtype(0) != DataType::F32) return "X is " + std::string(refactor::name_of(dtype(0))) + ", expected f32";
    auto zeros = request.inputs.size() - 3;
    for (size_t i : {1, 2}) {
        if (dtype(i) != DataType::U8 && dtype(i) != DataType::I8)
            return (i == 1 ? "W is " : "R is ") + std::string(refactor::name_of(dtype(i))) + ", expected u8 or i8";
        if (auto type = dtype(zeros + 2 * (i - 1)); type != dtype(i))
            return "the zero point of " + std::string(i == 1 ? "W" : "R") + " is " +
                   std::string(refactor::name_of(type)) + ", expected " + std::string(refactor::name_of(dtype(i)));
    }
    return {};
}

std::string RecurrentShape::init(RecurrentInfo const& info, BindArgs const& args) {
    auto const& x = args.inputs[0]->dims;
    if (x.size() != 3) return "X has " + std::to_string(x.size()) + " axes, expected 3";
    directions = info.bidirectional ? 2 : 1, gates = gates_of(info.cell), hidden = info.hidden;
    steps = x[info.batch_first], batch = x[!info.batch_first], inputs = x[2];
    x_step = info.batch_first ? inputs : batch * inputs, x_batch = info.batch_first ? steps * inputs : inputs;
    y_direction = info.batch_first ? hidden : batch * hidden;
    y_batch = info.batch_first ? steps * directions * hidden : hidden;
    y_step = info.batch_first ? directions * hidden : directions * batch * hidden;
    state_batch = info.batch_first ? directions * hidden : hidden;
    state_direction = info.batch_first ? hidden : batch * hidden;
    std::string problem;
    auto expect = [&](int i, std::string_view name, Dims const& dims) {
        if (args.inputs[static_cast<size_t>(i)]->dims != dims && problem.empty())
            problem = std::string(name) + " is " + text_of(args.inputs[static_cast<size_t>(i)]->dims) + ", expected " +
                      text_of(dims);
        return i;
    };
    auto state = info.batch_first ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
    if (info.quantized)
        expect(1, "W", {directions, inputs, gates * hidden}), expect(2, "R", {directions, hidden, gates * hidden});
    else
        expect(1, "W", {directions, gates * hidden, inputs}), expect(2, "R", {directions, gates * hidden, hidden});
    int next = 3;
    if (info.bias) bias = expect(next++, "the bias", {directions, 2 * gates * hidden});
    if (info.lengths) lengths = expect(next++, "the lengths", {batch});
    if (info.initial_h) initial_h = expect(next++, "initial_h", state);
    if (info.initial_c) initial_c = expect(next++, "initial_c", state);
    if (info.peepholes) peepholes = expect(next++, "the peepholes", {directions, 3 * hidden});
    auto layout_of = [&](int matrix, std::string_view name, int scale, int zero) {
        QuantizedLayout layout;
        layout.is_signed = args.inputs[static_cast<size_t>(matrix)]->dtype == DataType::I8;
        auto check = [&](int i, std::string_view role, int64_t& step, bool& many) {
            auto text = steps_of(args.inputs[static_cast<size_t>(i)]->dims, directions, gates * hidden,
                                 std::string(role) + std::string(name), step, many);
            if (problem.empty()) problem = text;
        };
        check(scale, "the scale of ", layout.scale_step, layout.many_scales);
        check(zero, "the zero point of ", layout.zero_step, layout.many_zeros);
        return layout;
    };
    if (info.quantized) {
        w_scale = next++, w_zero = next++, r_scale = next++, r_zero = next++;
        w_layout = layout_of(1, "W", w_scale, w_zero), r_layout = layout_of(2, "R", r_scale, r_zero);
    }
    if (info.y) y = next++;
    if (info.y_h) y_h = next++;
    if (info.y_c) y_c = next++;
    return problem;
}

void RecurrentShape::check_lengths(int32_t const* values) const {
    for (int64_t n = 0; n < batch; ++n)
        if (values[n] < 0 || values[n] > steps)
            throw InvalidInput("sequence " + std::to_string(n) + " has the length " + std::to_string(values[n]) +
                               ", expected 0 to " + std::to_string(steps));
}

std::string RecurrentInfo::attributes() const {
    auto text = std::string(name_of(cell)) + ",hidden=" + std::to_string(hidden);
    auto flag = [&](bool value, char const* name) {
        if (value) text.append(",").append(name);
    };
    flag(bidirectional, "bidirectional"), flag(reverse, "reverse"), flag(batch_first, "batch_first");
    flag(linear_before_reset, "linear_before_reset"), flag(input_forget, "input_forget");
    flag(bias, "bias"), flag(lengths, "lengths"), flag(initial_h, "initial_h"), flag(initial_c, "initial_c");
    flag(peepholes, "peepholes"), flag(quantized, "quantized"), flag(may_round, "bf16");
    flag(y, "y"), flag(y_h, "y_h"), flag(y_c, "y_c");
    if (clip != 0) text += ",clip=" + exact_text(clip);
    for (auto const& a : activations)
        text +=
            ",f" + std::to_string(static_cast<int>(a.function)) + ":" + exact_text(a.alpha) + ":" + exact_text(a.beta);
    return text;
}

Candidates candidates(RecurrentInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("recurrent:nvidia:nvrtc", cuda::recurrent_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "recurrent/recurrent_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
