#include "fourier/fourier.h"

#include "cuda/kernels.h"
#include "reduce/scalar_type.h"

namespace refactor::kernel {

std::shared_ptr<FftPlan const> FftPlans::get(int64_t n) {
    std::lock_guard lock(mutex_);
    auto& plan = plans_[n];
    if (!plan) plan = std::make_shared<FftPlan const>(n);
    return plan;
}

namespace {

std::string text_of(std::span<int64_t const> dims) {
    std::string text = "[";
    for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
    return text + "]";
}

}  // namespace

Result<FourierRows, Rejection> fourier_rows(FourierInfo const& info, BindArgs const& args) {
    auto const &x = args.inputs[0]->dims, &y = args.outputs[0]->dims;
    auto rank = static_cast<int64_t>(x.size());
    if (rank < 2 || y.size() != x.size() || info.axis < 0 || info.axis > rank - 2)
        return reject("X " + text_of(x) + " has no signal axis " + std::to_string(info.axis));
    auto n = args.params[0];
    if (n < 1) return reject("the length of the transform is " + std::to_string(n) + ", expected at least 1");
    AxisSplit in(std::span(x.data(), x.size() - 1), info.axis), out(std::span(y.data(), y.size() - 1), info.axis);
    FourierRows r;
    r.parts_in = x.back(), r.parts_out = y.back(), r.inverse = info.inverse, r.length = n;
    bool half = info.inverse && info.onesided;
    if (r.parts_in < 1 || r.parts_in > 2 || r.parts_out != (half ? 1 : 2))
        return reject("X " + text_of(x) + " and Y " + text_of(y) + " are no real or complex signals");
    using enum FourierRows::Kind;
    r.kind = half ? FromHalf : r.parts_in == 1 && !info.inverse ? Real : Complex;
    r.available = half ? std::min(in.size, n / 2 + 1) : in.size, r.kept = out.size;
    if (r.kept > n || in.outer != out.outer || in.inner != out.inner)
        return reject("X " + text_of(x) + " and Y " + text_of(y) + " do not fit together");
    r.rows = in.outer * in.inner, r.inner = std::max<int64_t>(1, in.inner);
    r.step_in = in.inner * r.parts_in, r.step_out = out.inner * r.parts_out;
    r.outer_in = in.size * r.step_in, r.inner_in = r.parts_in;
    r.outer_out = out.size * r.step_out, r.inner_out = r.parts_out;
    return r;
}

Result<FourierRows, Rejection> fourier_rows(StftInfo const& info, BindArgs const& args) {
    auto const &x = args.inputs[0]->dims, &y = args.outputs[0]->dims;
    auto step = args.params[0], n = args.params[1];
    if (x.size() != 3 || y.size() != 4 || x[2] < 1 || x[2] > 2 || y[3] != 2)
        return reject("X " + text_of(x) + " and Y " + text_of(y) + " are no real or complex signals");
    if (n < 1 || step < 1)
        return reject("frames of " + std::to_string(n) + " with step " + std::to_string(step) +
                      ", expected at least 1");
    FourierRows r;
    r.kind = x[2] == 1 ? FourierRows::Kind::Real : FourierRows::Kind::Complex;
    r.window = info.window, r.length = r.available = n, r.kept = y[2];
    r.step_in = r.parts_in = x[2], r.step_out = r.parts_out = 2;
    r.rows = x[0] * y[1], r.inner = std::max<int64_t>(1, y[1]);
    r.outer_in = x[1] * x[2], r.inner_in = step * x[2];
    r.outer_out = y[1] * y[2] * 2, r.inner_out = y[2] * 2;
    if (y[0] != x[0] || r.kept > n || (y[1] > 0 && (y[1] - 1) * step + n > x[1]))
        return reject("frames " + text_of(y) + " reach beyond X " + text_of(x));
    if (info.window && args.inputs[1]->count() != n)
        return reject("the window has " + std::to_string(args.inputs[1]->count()) + " elements, expected " +
                      std::to_string(n));
    return r;
}

namespace {

template <class Info>
class FourierKernel final : public Kernel {
    FftFunctions const& functions_;
    std::string id_;
    int lanes_;
    Info info_;
    std::unique_ptr<FftPlans> plans_ = std::make_unique<FftPlans>();

public:
    FourierKernel(FftFunctions const& functions, std::string id, Isa isa, Info info)
        : functions_(functions),
          id_(std::move(id)),
          lanes_(isa >= Isa::Avx512 ? 8
                 : isa >= Isa::Avx2 ? 4
                                    : 1),
          info_(std::move(info)) {}
    std::string id() const override { return id_; }
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto rows = fourier_rows(info_, args);
        if (!rows) return Err{rows.error()};
        return fourier_ns(*rows, lanes_);
    }
    MaybeTask bind(BindArgs const& args) const override {
        auto rows = fourier_rows(info_, args);
        if (!rows) return Err{rows.error()};
        return make_fourier_task(functions_, *rows, plans_->get(rows->length), args.inputs[0]->dtype);
    }
};

template <class Info>
MaybeKernel make(std::string_view op, Info const& info, Request const& request, Isa isa,
                 FftFunctions const& (*functions)()) {
    if (auto why = why_not_plain_cpu(request); !why.empty()) return reject(why);
    if (request.isa < isa)
        return reject("needs " + std::string(name_of(isa)) + ", allowed is " + std::string(name_of(request.isa)));
    auto dtype = request.inputs[0].dtype;
    if (!is_any_float(dtype)) return reject("dtype " + std::string(refactor::name_of(dtype)) + " is not a float");
    return std::unique_ptr<Kernel>(new FourierKernel<Info>(functions(), id_of(op, "stockham", dtype, isa), isa, info));
}

}  // namespace

#if RG_X86
MaybeKernel make_fourier_avx512(FourierInfo const& info, Request const& request) {
    return make("fourier", info, request, Isa::Avx512, fft_functions_avx512);
}
MaybeKernel make_fourier_avx2(FourierInfo const& info, Request const& request) {
    return make("fourier", info, request, Isa::Avx2, fft_functions_avx2);
}
MaybeKernel make_stft_avx512(StftInfo const& info, Request const& request) {
    return make("stft", info, request, Isa::Avx512, fft_functions_avx512);
}
MaybeKernel make_stft_avx2(StftInfo const& info, Request const& request) {
    return make("stft", info, request, Isa::Avx2, fft_functions_avx2);
}
#else
MaybeKernel make_fourier_avx512(FourierInfo const&, Request const&) {
    return reject("not built for this architecture");
}
MaybeKernel make_fourier_avx2(FourierInfo const&, Request const&) { return reject("not built for this architecture"); }
MaybeKernel make_stft_avx512(StftInfo const&, Request const&) { return reject("not built for this architecture"); }
MaybeKernel make_stft_avx2(StftInfo const&, Request const&) { return reject("not built for this architecture"); }
#endif
MaybeKernel make_fourier_scalar(FourierInfo const& info, Request const& request) {
    return make("fourier", info, request, Isa::Scalar, fft_functions_scalar);
}
MaybeKernel make_stft_scalar(StftInfo const& info, Request const& request) {
    return make("stft", info, request, Isa::Scalar, fft_functions_scalar);
}

std::string FourierInfo::attributes() const {
    return "axis=" + std::to_string(axis) + (inverse ? ",inverse" : "") + (onesided ? ",onesided" : "");
}
std::string StftInfo::attributes() const {
    return std::string(onesided ? "onesided" : "twosided") + (window ? ",window" : "");
}

Candidates candidates(FourierInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("fourier:nvidia:nvrtc", cuda::fourier_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "fourier/fourier_kernels.inc"
#undef RG_KERNEL
    return answer;
}
Candidates candidates(StftInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("stft:nvidia:nvrtc", cuda::stft_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "fourier/stft_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
