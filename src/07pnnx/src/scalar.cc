#include "scalar.h"

#include <cmath>

namespace refactor::pnnx {

namespace {

/// Both as ratios, or nothing.
struct Pair {
    Scalar a, b;
};
std::optional<Pair> exact_pair(Scalar const& a, Scalar const& b) {
    auto x = a.exact(), y = b.exact();
    if (!x || !y) return std::nullopt;
    return Pair{*x, *y};
}

/// The result for two constants, in Python's arithmetic.
template <class F>
std::optional<Scalar> of_constants(Scalar const& a, Scalar const& b, F f) {
    auto x = a.constant(), y = b.constant();
    if (!x || !y || (!a.is_float() && !b.is_float())) return std::nullopt;
    return Scalar::of_float(f(*x, *y));
}

Scalar make(DimExpr const& numerator, DimExpr const& denominator, bool is_float) {
    return is_float ? Scalar::ratio(numerator, denominator) : Scalar::of_int(numerator);
}

/// Sizes are never negative, so a negative value is one that is known.
bool may_be_negative(DimExpr const& x) {
    auto low = x.lower_bound();
    return !low || *low < 0;
}

}  // namespace

Scalar Scalar::of_int(DimExpr value) {
    Scalar result;
    result.numerator_ = std::move(value);
    return result;
}

Scalar Scalar::of_float(double value) {
    Scalar result;
    result.number_ = value, result.is_float_ = result.is_number_ = true;
    return result;
}

Scalar Scalar::ratio(DimExpr numerator, DimExpr denominator) {
    Scalar result;
    result.numerator_ = std::move(numerator), result.denominator_ = std::move(denominator), result.is_float_ = true;
    return result;
}

std::optional<double> Scalar::constant() const {
    if (is_number_) return number_;
    auto n = numerator_.constant(), d = denominator_.constant();
    if (!n || !d || *d == 0) return std::nullopt;
    return static_cast<double>(*n) / static_cast<double>(*d);
}

std::optional<DimExpr> Scalar::integer() const {
    if (is_number_) {
        if (!(std::abs(number_) < 0x1p53) || number_ != std::floor(number_)) return std::nullopt;
        return DimExpr(static_cast<int64_t>(number_));
    }
    if (denominator_ == DimExpr(1)) return numerator_;
    if (mod(numerator_, denominator_) == DimExpr(0)) return pnnx::floor_divide(*this, of_int(1))->numerator();
    return std::nullopt;
}

std::optional<Scalar> Scalar::exact() const {
    if (!is_number_) return *this;
    // Factors such as 0.5 or 1/3 that models scale sizes by.
    for (int64_t denominator = 1; denominator <= 64; ++denominator) {
        auto scaled = number_ * static_cast<double>(denominator);
        auto whole = std::nearbyint(scaled);
        if (std::abs(whole) < 0x1p40 &&
            static_cast<float>(whole / static_cast<double>(denominator)) == static_cast<float>(number_))
            return ratio(static_cast<int64_t>(whole), denominator);
    }
    return std::nullopt;
}

std::optional<Scalar> add(Scalar const& a, Scalar const& b) {
    if (auto result = of_constants(a, b, [](double x, double y) { return x + y; })) return result;
    auto p = exact_pair(a, b);
    if (!p) return std::nullopt;
    return make(p->a.numerator_ * p->b.denominator_ + p->b.numerator_ * p->a.denominator_,
                p->a.denominator_ * p->b.denominator_, a.is_float() || b.is_float());
}

std::optional<Scalar> subtract(Scalar const& a, Scalar const& b) {
    auto negative = multiply(b, Scalar::of_int(-1));
    return negative ? add(a, *negative) : std::nullopt;
}

std::optional<Scalar> multiply(Scalar const& a, Scalar const& b) {
    if (auto result = of_constants(a, b, [](double x, double y) { return x * y; })) return result;
    auto p = exact_pair(a, b);
    if (!p) return std::nullopt;
    return make(p->a.numerator_ * p->b.numerator_, p->a.denominator_ * p->b.denominator_, a.is_float() || b.is_float());
}

std::optional<Scalar> divide(Scalar const& a, Scalar const& b) {
    if (b.constant() == 0) return std::nullopt;
    if (auto result = of_constants(a, b, [](double x, double y) { return x / y; })) return result;
    auto p = exact_pair(a, b);
    if (!p) return std::nullopt;
    return Scalar::ratio(p->a.numerator_ * p->b.denominator_, p->a.denominator_ * p->b.numerator_);
}

std::optional<Scalar> floor_divide(Scalar const& a, Scalar const& b) {
    if (b.constant() == 0) return std::nullopt;
    if (auto result = of_constants(a, b, [](double x, double y) { return std::floor(x / y); })) return result;
    auto p = exact_pair(a, b);
    if (!p) return std::nullopt;
    auto value = floor_div(p->a.numerator_ * p->b.denominator_, p->a.denominator_ * p->b.numerator_);
    return make(value, 1, a.is_float() || b.is_float());
}

std::optional<Scalar> remainder(Scalar const& a, Scalar const& b) {
    auto quotient = floor_divide(a, b);
    auto product = quotient ? multiply(*quotient, b) : std::nullopt;
    return product ? subtract(a, *product) : std::nullopt;
}

std::optional<Scalar> round_to(Scalar const& x, Scalar::Rounding rounding, bool to_int) {
    using R = Scalar::Rounding;
    if (auto number = x.constant(); number && x.is_float_) {
        auto value = rounding == R::Floor  ? std::floor(*number)
                     : rounding == R::Ceil ? std::ceil(*number)
                                           : std::trunc(*number);
        if (!to_int) return Scalar::of_float(value);
        if (!(std::abs(value) < 0x1p53)) return std::nullopt;
        return Scalar::of_int(static_cast<int64_t>(value));
    }
    DimExpr value = x.numerator_;
    if (x.denominator_ != DimExpr(1)) {
        if (rounding == R::Ceil)
            value = ceil_div(x.numerator_, x.denominator_);
        else if (rounding == R::Truncate && (may_be_negative(x.numerator_) || may_be_negative(x.denominator_)))
            return std::nullopt;
        else
            value = floor_div(x.numerator_, x.denominator_);
    }
    return make(value, 1, x.is_float() && !to_int);
}

std::optional<Scalar> extremum(Scalar const& a, Scalar const& b, bool largest) {
    auto pick = [&](double x, double y) { return largest ? std::fmax(x, y) : std::fmin(x, y); };
    if (auto result = of_constants(a, b, pick)) return result;
    auto x = a.integer(), y = b.integer();
    if (!x || !y) return std::nullopt;
    return make(largest ? max(*x, *y) : min(*x, *y), 1, a.is_float() || b.is_float());
}

}  // namespace refactor::pnnx
