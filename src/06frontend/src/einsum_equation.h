#pragma once
#include "frontend/operator.h"

#include <string>
#include <string_view>
#include <vector>

/// The equation of an Einsum: which label every axis of every operand has.
namespace refactor::frontend::einsum {

/// Labels of the axes of an ellipsis, counted from the last; all others are letters.
constexpr char kFirstEllipsisLabel = 1, kEllipsisLabels = 31;

struct Equation {
    std::vector<std::string> inputs;  ///< labels of the axes
    std::string output;
};

inline bool contains(std::string const& labels, char c) { return labels.find(c) != std::string::npos; }
inline bool of_ellipsis(char label) { return label < kFirstEllipsisLabel + kEllipsisLabels; }

/// An ellipsis is one label still.
Inferred<Equation> parse(std::string_view text);
/// Gives every operand as many labels as axes, and the output those of the widest ellipsis.
Status name_axes(std::vector<Shape> const& operands, Equation& equation);

}  // namespace refactor::frontend::einsum
