#pragma once
// Butterflies on `V`, a vector of doubles or one double.
#include "fourier/fft.h"

namespace refactor::kernel {
namespace {

using Eight [[gnu::vector_size(64)]] = double;

template <class V>
struct Complex {
    V re, im;
};
#define RG_FFT [[gnu::always_inline]] inline
template <class V>
RG_FFT Complex<V> operator+(Complex<V> a, Complex<V> b) {
    return {a.re + b.re, a.im + b.im};
}
template <class V>
RG_FFT Complex<V> operator-(Complex<V> a, Complex<V> b) {
    return {a.re - b.re, a.im - b.im};
}
template <class V>
RG_FFT Complex<V> times(Complex<V> a, double re, double im) {
    return {a.re * re - a.im * im, a.re * im + a.im * re};
}
/// -i a
template <class V>
RG_FFT Complex<V> turn(Complex<V> a) {
    return {a.im, -a.re};
}

/// Sums of `p` inputs, unrolled where the radix is known.
template <class V>
RG_FFT void butterfly2(Complex<V>* a) {
    Complex<V> b = a[1];
    a[1] = a[0] - b, a[0] = a[0] + b;
}
template <class V>
RG_FFT void butterfly3(Complex<V>* a) {
    constexpr double kSin = 0.86602540378443864676;
    Complex<V> s = a[1] + a[2], d = a[1] - a[2];
    Complex<V> m{a[0].re - s.re * 0.5, a[0].im - s.im * 0.5}, t{d.im * kSin, -d.re * kSin};
    a[0] = a[0] + s, a[1] = m + t, a[2] = m - t;
}
template <class V>
RG_FFT void butterfly4(Complex<V>* a) {
    Complex<V> s = a[0] + a[2], d = a[0] - a[2], u = a[1] + a[3], v = turn(a[1] - a[3]);
    a[0] = s + u, a[1] = d + v, a[2] = s - u, a[3] = d - v;
}
template <class V>
RG_FFT void butterfly5(Complex<V>* a) {
    constexpr double kCos1 = 0.30901699437494742410, kCos2 = -0.80901699437494742410, kSin1 = 0.95105651629515357212,
                     kSin2 = 0.58778525229247312917;
    Complex<V> s1 = a[1] + a[4], s2 = a[2] + a[3], d1 = turn(a[1] - a[4]), d2 = turn(a[2] - a[3]), z = a[0];
    Complex<V> p{z.re + s1.re * kCos1 + s2.re * kCos2, z.im + s1.im * kCos1 + s2.im * kCos2};
    Complex<V> q{z.re + s1.re * kCos2 + s2.re * kCos1, z.im + s1.im * kCos2 + s2.im * kCos1};
    Complex<V> t{d1.re * kSin1 + d2.re * kSin2, d1.im * kSin1 + d2.im * kSin2};
    Complex<V> u{d1.re * kSin2 - d2.re * kSin1, d1.im * kSin2 - d2.im * kSin1};
    a[0] = z + s1 + s2, a[1] = p + t, a[2] = q + u, a[3] = q - u, a[4] = p - t;
}
template <class V>
RG_FFT void butterfly_any(Complex<V>* a, int p, double const* twiddles, int64_t n) {
    Complex<V> b[kLargestRadix];
    int64_t step = n / p;
    for (int r = 0; r < p; ++r) {
        b[r] = a[0];
        for (int k = 1; k < p; ++k) {
            double const* w = twiddles + 2 * (k * r % p) * step;
            b[r] = b[r] + times(a[k], w[0], w[1]);
        }
    }
    for (int r = 0; r < p; ++r) a[r] = b[r];
}

/// One stage: transforms of `length` are cut into `p` of length / p; `stride` of them are interleaved.
template <class V, int known>
void stage(FftStages const& f, int p, int64_t length, int64_t stride, Complex<V> const* x, Complex<V>* y) {
    if (known) p = known;
    int64_t m = length / p, unit = f.n / length;
    for (int64_t j = 0; j < m; ++j) {
        for (int64_t q = 0; q < stride; ++q) {
            Complex<V> a[known ? known : kLargestRadix];
            for (int k = 0; k < p; ++k) a[k] = x[q + stride * (j + m * k)];
            if constexpr (known == 2)
                butterfly2(a);
            else if constexpr (known == 3)
                butterfly3(a);
            else if constexpr (known == 4)
                butterfly4(a);
            else if constexpr (known == 5)
                butterfly5(a);
            else
                butterfly_any(a, p, f.twiddles, f.n);
            Complex<V>* to = y + q + stride * p * j;
            to[0] = a[0];
            for (int r = 1; r < p; ++r) {
                double const* w = f.twiddles + 2 * (j * r * unit);
                to[stride * r] = times(a[r], w[0], w[1]);
            }
        }
    }
}

template <class V>
double* transform(FftStages const& f, double* from, double* to) {
    auto* x = reinterpret_cast<Complex<V>*>(from);
    auto* y = reinterpret_cast<Complex<V>*>(to);
    int64_t length = f.n, stride = 1;
    for (int i = 0; i < f.count; ++i) {
        int p = f.radix[i];
        switch (p) {
            case 2:
                stage<V, 2>(f, p, length, stride, x, y);
                break;
            case 3:
                stage<V, 3>(f, p, length, stride, x, y);
                break;
            case 4:
                stage<V, 4>(f, p, length, stride, x, y);
                break;
            case 5:
                stage<V, 5>(f, p, length, stride, x, y);
                break;
            default:
                stage<V, 0>(f, p, length, stride, x, y);
        }
        Complex<V>* swap = x;
        x = y, y = swap;
        length /= p, stride *= p;
    }
    return reinterpret_cast<double*>(x);
}

template <class V>
void multiply(double* data, double const* factors, int64_t count) {
    auto* x = reinterpret_cast<Complex<V>*>(data);
    for (int64_t k = 0; k < count; ++k) x[k] = times(x[k], factors[2 * k], factors[2 * k + 1]);
}

constexpr FftFunctions kFunctions{transform<Eight>, transform<double>, multiply<Eight>, multiply<double>};

}  // namespace
}  // namespace refactor::kernel
