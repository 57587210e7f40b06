#pragma once
#include "frontend/expression.h"

/// Functions of torch that are more than one instruction, for float values.
namespace refactor::pnnx {

/// Accurate for small x: log(u) · x / (u - 1) with u = 1 + x. Source: HP-15C Advanced Functions Handbook, appendix.
frontend::Expression::Value log1p(frontend::Expression& e, frontend::Expression::Value x);
/// Accurate for small x: (u - 1) · x / log(u) with u = exp(x).
frontend::Expression::Value expm1(frontend::Expression& e, frontend::Expression::Value x);
frontend::Expression::Value truncate(frontend::Expression& e, frontend::Expression::Value x);
/// The angle of (x, y); signed zeros count, two infinities give NaN.
frontend::Expression::Value atan2(frontend::Expression& e, frontend::Expression::Value y,
                                  frontend::Expression::Value x);
/// log(exp(a) + exp(b)) without overflow.
frontend::Expression::Value logaddexp(frontend::Expression& e, frontend::Expression::Value a,
                                      frontend::Expression::Value b);
/// a - floor(a / b) · b, exactly.
frontend::Expression::Value float_remainder(frontend::Expression& e, frontend::Expression::Value a,
                                            frontend::Expression::Value b);

}  // namespace refactor::pnnx
