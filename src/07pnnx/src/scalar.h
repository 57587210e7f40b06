#pragma once
#include "common/data_type.h"
#include "common/dim_expr.h"

#include <optional>

namespace refactor::pnnx {

/// A Python number of a pnnx expression: an integer that may be symbolic, a ratio of such, or a float constant.
///
/// Sizes that go through floats (`int(size * 0.5)`, `ceil(size / 2)`) stay exact and symbolic, as long as the floats
/// are fractions of small numbers.
class Scalar {
    DimExpr numerator_, denominator_ = 1;
    double number_ = 0;       ///< of a float constant
    bool is_float_ = false;   ///< its Python type
    bool is_number_ = false;  ///< `number_` holds the value

public:
    Scalar() = default;
    static Scalar of_int(DimExpr value);
    static Scalar of_float(double value);
    static Scalar ratio(DimExpr numerator, DimExpr denominator);

    bool is_float() const { return is_float_; }
    /// The value, if it does not depend on sizes.
    std::optional<double> constant() const;
    /// The value as an integer, if its Python type is int or it is a whole constant.
    std::optional<DimExpr> integer() const;
    DimExpr const& numerator() const { return numerator_; }
    DimExpr const& denominator() const { return denominator_; }
    /// Whether the value is `numerator / denominator`.
    bool is_exact() const { return !is_number_; }
    /// The same as a ratio of integers, if the float is one.
    std::optional<Scalar> exact() const;

    friend std::optional<Scalar> add(Scalar const&, Scalar const&);
    friend std::optional<Scalar> subtract(Scalar const&, Scalar const&);
    friend std::optional<Scalar> multiply(Scalar const&, Scalar const&);
    /// Python's `/`: a float.
    friend std::optional<Scalar> divide(Scalar const&, Scalar const&);
    friend std::optional<Scalar> floor_divide(Scalar const&, Scalar const&);
    friend std::optional<Scalar> remainder(Scalar const&, Scalar const&);
    enum class Rounding { Floor, Ceil, Truncate };
    /// To an integer; the Python type stays float unless `to_int`.
    friend std::optional<Scalar> round_to(Scalar const&, Rounding, bool to_int);
    friend std::optional<Scalar> extremum(Scalar const&, Scalar const&, bool largest);
};
// Nothing: the result has no symbolic form (or is a division by zero).
std::optional<Scalar> add(Scalar const&, Scalar const&);
std::optional<Scalar> subtract(Scalar const&, Scalar const&);
std::optional<Scalar> multiply(Scalar const&, Scalar const&);
std::optional<Scalar> divide(Scalar const&, Scalar const&);
std::optional<Scalar> floor_divide(Scalar const&, Scalar const&);
std::optional<Scalar> remainder(Scalar const&, Scalar const&);
std::optional<Scalar> round_to(Scalar const&, Scalar::Rounding, bool to_int);
std::optional<Scalar> extremum(Scalar const&, Scalar const&, bool largest);

}  // namespace refactor::pnnx
