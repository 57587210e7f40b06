#include "kernel/ops/fourier.h"

#include "fourier/fft.h"
#include "reduce/kernel_test.h"

#include <complex>
#include <numbers>

namespace refactor::kernel::test {
namespace {

using Number = std::complex<double>;

/// The definition, with exact angles.
std::vector<Number> transform(std::vector<Number> const& x, int64_t n, bool inverse) {
    std::vector<Number> y(static_cast<size_t>(n));
    for (int64_t k = 0; k < n; ++k) {
        for (int64_t i = 0; i < std::min(n, static_cast<int64_t>(x.size())); ++i) {
            auto angle = 2 * std::numbers::pi * static_cast<double>(k * i % n) / static_cast<double>(n);
            y[static_cast<size_t>(k)] += x[static_cast<size_t>(i)] * std::polar(1., inverse ? angle : -angle);
        }
        if (inverse) y[static_cast<size_t>(k)] /= static_cast<double>(n);
    }
    return y;
}

/// The columns of axis 1 of a tensor [A, L, B, parts] of f32.
struct Columns {
    Tensor const& t;
    int64_t outer() const { return t.desc.dims[0]; }
    int64_t size() const { return t.desc.dims[1]; }
    int64_t inner() const { return t.desc.dims[2]; }
    std::vector<Number> at(int64_t a, int64_t b) const {
        std::vector<Number> column;
        auto parts = t.desc.dims[3];
        for (int64_t k = 0; k < size(); ++k) {
            auto const* x = t.as<float>() + ((a * size() + k) * inner() + b) * parts;
            column.emplace_back(static_cast<double>(x[0]), parts == 2 ? static_cast<double>(x[1]) : 0);
        }
        return column;
    }
};

void expect_transforms(FourierInfo const& info, Tensor const& x, Tensor const& y, int64_t n, std::string const& what) {
    Columns in{x}, out{y};
    for (int64_t a = 0; a < in.outer(); ++a)
        for (int64_t b = 0; b < in.inner(); ++b) {
            auto column = in.at(a, b);
            if (info.inverse && info.onesided) {
                column.resize(static_cast<size_t>(n / 2 + 1));
                std::vector<Number> full(static_cast<size_t>(n));
                for (int64_t k = 0; k <= n / 2; ++k) {
                    auto value = column[static_cast<size_t>(k)];
                    if (k == 0 || 2 * k == n) value = value.real();
                    full[static_cast<size_t>(k ? n - k : 0)] = std::conj(value);
                    full[static_cast<size_t>(k)] = value;
                }
                column = full;
            }
            auto wanted = transform(column, n, info.inverse);
            auto actual = out.at(a, b);
            // f64 inside: one rounding to f32 of sums of n terms of size 1.
            auto tolerance = 1.2e-7 * std::sqrt(static_cast<double>(n)) * 4;
            for (size_t k = 0; k < actual.size(); ++k) {
                ASSERT_NEAR(actual[k].real(), wanted[k].real(), tolerance) << what << " n=" << n << " k=" << k;
                if (out.t.desc.dims[3] == 1) continue;
                ASSERT_NEAR(actual[k].imag(), wanted[k].imag(), tolerance) << what << " n=" << n << " k=" << k;
            }
        }
}

template <class Info>
Tensor compute(Info const& info, std::vector<Tensor> inputs, Dims result, std::vector<int64_t> const& params, Isa isa,
               int threads) {
    std::vector<Tensor> outputs{Tensor(DataType::F32, std::move(result))};
    auto in = operands_of(inputs), out = operands_of(outputs);
    auto found = candidates(info, request_of(in, out, isa, threads));
    EXPECT_EQ(found.kernels.size(), static_cast<size_t>(wide_levels(isa)) + 1);
    std::vector<TensorDesc const*> operands;
    std::vector<void*> arguments;
    for (auto& t : inputs) operands.push_back(&t.desc), arguments.push_back(t.bytes.data());
    TensorDesc const* target = &outputs[0].desc;
    arguments.push_back(outputs[0].bytes.data());
    PackCache packs;
    ThreadPool pool(threads);
    auto task = found.kernels.front()->bind({operands, {&target, 1}, params, packs, threads});
    EXPECT_TRUE(task.ok()) << task.error().reason;
    (*task)->run(arguments.data(), runtime::TaskMemory(**task, threads).context(pool));
    return outputs[0];
}

std::vector<Isa> levels() {
    std::vector<Isa> list{Isa::Scalar};
    for (auto isa : {Isa::Avx2, Isa::Avx512})
        if (isa <= cpu_features().isa) list.push_back(isa);
    return list;
}

TEST(Fourier, FollowsTheDefinition) {
    std::mt19937 random(seed_of(91));
    for (int64_t n : {1, 2, 3, 4, 5, 7, 8, 12, 15, 30, 31, 37, 49, 64, 74, 97, 120, 222, 400})
        for (auto isa : levels())
            for (int kind = 0; kind < 6; ++kind) {
                FourierInfo info{1, kind >= 3, kind == 1 || kind == 5};
                bool real = kind < 2 || kind == 3, half = kind == 5;
                // Sometimes more elements than are used, sometimes fewer.
                auto size = std::max<int64_t>(1, (half ? n / 2 + 1 : n) + static_cast<int64_t>(random() % 5) - 2);
                Dims rows = kind % 2 ? Dims{1, 2} : Dims{3, 7};
                auto x = random_f32({rows[0], size, rows[1], real ? 1 : 2}, random);
                auto kept = info.onesided && !half ? n / 2 + 1 : n;
                auto y = compute(info, {x}, {rows[0], kept, rows[1], half ? 1 : 2}, {n}, isa, 1 + kind % 3);
                expect_transforms(info, x, y, n, std::string(name_of(isa)) + " " + info.attributes());
            }
}

/// Real rows share a lane: what is not finite in one must not reach the other.
TEST(Fourier, RowsKeepTheirInfinities) {
    std::mt19937 random(seed_of(93));
    for (int64_t n : {1, 6, 15, 37})
        for (auto isa : levels())
            for (bool half : {false, true}) {
                FourierInfo info{1, half, half};
                auto size = half ? n / 2 + 1 : n;
                auto x = random_f32({1, size, 7, half ? 2 : 1}, random);
                auto result = [&] { return compute(info, {x}, {1, n, 7, half ? 1 : 2}, {n}, isa, 1); };
                auto parts = half ? 2 : 1, results = half ? 1 : 2;
                auto at = [&](int64_t row, int64_t k) { return x.as<float>() + (k * 7 + row) * parts; };
                auto clean = result();
                auto bad = static_cast<int64_t>(random() % 7);
                *at(bad, 0) = std::numeric_limits<float>::quiet_NaN();
                *at((bad + 2) % 7, size - 1) = -std::numeric_limits<float>::infinity();
                auto y = result();
                for (int64_t i = 0; i < y.desc.count(); ++i) {
                    auto row = i / results % 7;
                    if (row == bad) {
                        // The imaginary part of a sum is 0.
                        ASSERT_TRUE(i % results || std::isnan(y.as<float>()[i])) << n;
                    } else if (row != (bad + 2) % 7) {
                        ASSERT_NEAR(y.as<float>()[i], clean.as<float>()[i], 1e-6f * static_cast<float>(n)) << row;
                    }
                }
            }
}

TEST(Fourier, LongTransformsStayPrecise) {
    // A pure tone has one line in its spectrum: everything else is rounding.
    for (int64_t n : {1 << 15, 3 * 5 * 7 * 11 * 13, 10007}) {
        Tensor x(DataType::F32, {1, n, 1, 2});
        auto tone = n * 37 / 156;  // no small fraction: rounding would not be independent
        for (int64_t i = 0; i < n; ++i) {
            auto angle = 2 * std::numbers::pi * static_cast<double>(tone * i % n) / static_cast<double>(n);
            x.as<float>()[2 * i] = static_cast<float>(std::cos(angle));
            x.as<float>()[2 * i + 1] = static_cast<float>(std::sin(angle));
        }
        auto y = compute(FourierInfo{1, false, false}, {x}, {1, n, 1, 2}, {n}, cpu_features().isa, 1);
        for (int64_t k = 0; k < n; ++k) {
            // The input is rounded to f32: independent errors of 3e-8, 6 sigma of their sum.
            auto tolerance = 6 * 3e-8 * std::sqrt(static_cast<double>(n));
            ASSERT_NEAR(static_cast<double>(y.as<float>()[2 * k]), k == tone ? static_cast<double>(n) : 0,
                        k == tone ? 1e-7 * static_cast<double>(n) : tolerance);
            ASSERT_NEAR(static_cast<double>(y.as<float>()[2 * k + 1]), 0, k == tone ? 1e-2 : tolerance);
        }
    }
}

TEST(Fourier, ShortTimeTransforms) {
    std::mt19937 random(seed_of(92));
    for (auto isa : levels())
        for (int bits = 0; bits < 8; ++bits) {
            int64_t n = 24, step = 5, length = 90, frames = (length - n) / step + 1, parts = bits & 1 ? 2 : 1;
            StftInfo info{(bits & 2) != 0, (bits & 4) != 0};
            auto x = random_f32({2, length, parts}, random);
            auto window = random_f32({n}, random);
            std::vector<Tensor> inputs{x};
            if (info.window) inputs.push_back(window);
            auto kept = info.onesided ? n / 2 + 1 : n;
            auto y = compute(info, inputs, {2, frames, kept, 2}, {step, n}, isa, 2);
            for (int64_t b = 0; b < 2; ++b)
                for (int64_t f = 0; f < frames; ++f) {
                    std::vector<Number> frame;
                    for (int64_t i = 0; i < n; ++i) {
                        auto const* at = x.as<float>() + ((b * length) + f * step + i) * parts;
                        auto factor = info.window ? static_cast<double>(window.as<float>()[i]) : 1;
                        frame.emplace_back(static_cast<double>(at[0]) * factor,
                                           parts == 2 ? static_cast<double>(at[1]) * factor : 0);
                    }
                    auto wanted = transform(frame, n, false);
                    for (int64_t k = 0; k < kept; ++k) {
                        auto const* at = y.as<float>() + ((b * frames + f) * kept + k) * 2;
                        ASSERT_NEAR(static_cast<double>(at[0]), wanted[static_cast<size_t>(k)].real(), 4e-6);
                        ASSERT_NEAR(static_cast<double>(at[1]), wanted[static_cast<size_t>(k)].imag(), 4e-6);
                    }
                }
        }
}

TEST(Fourier, Refusals) {
    std::vector<Tensor> inputs{Tensor(DataType::F32, {2, 8, 1})}, outputs{Tensor(DataType::F32, {2, 4, 5, 2})};
    auto in = operands_of(inputs), out = operands_of(outputs);
    TensorDesc const *x = &inputs[0].desc, *y = &outputs[0].desc;
    PackCache packs;
    for (auto const& kernel : candidates(StftInfo{}, request_of(in, out, cpu_features().isa, 1)).kernels) {
        for (auto params : {std::vector<int64_t>{0, 8}, {3, 8}, {1, 0}})
            EXPECT_FALSE(kernel->bind({{&x, 1}, {&y, 1}, params, packs, 1}).ok()) << kernel->id();
    }
    for (auto const& kernel : candidates(FourierInfo{}, request_of(in, out, cpu_features().isa, 1)).kernels)
        for (int64_t n : {int64_t{0}, int64_t{8}}) {
            std::vector<int64_t> params{n};
            EXPECT_FALSE(kernel->bind({{&x, 1}, {&y, 1}, params, packs, 1}).ok()) << kernel->id();
        }
    in[0].dtype = DataType::I32;
    EXPECT_TRUE(candidates(FourierInfo{}, request_of(in, out, cpu_features().isa, 1)).kernels.empty());
}

}  // namespace
}  // namespace refactor::kernel::test
