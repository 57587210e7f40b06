#include "einsum_equation.h"

#include <algorithm>
#include <map>

namespace refactor::frontend::einsum {

namespace {

bool is_label(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Stands for the axes of an ellipsis until their number is known.
constexpr char kEllipsis = '.';

Inferred<std::string> labels_of(std::string_view text, bool unique) {
    std::string labels;
    for (size_t i = 0; i < text.size(); ++i) {
        char c = text[i];
        if (c == ' ') continue;
        if (c == '.') {
            if (text.substr(i, 3) != "..." || contains(labels, kEllipsis))
                return Err{invalid("the equation has \"", text, "\", expected at most one \"...\" in a term")};
            i += 2;
        } else if (!is_label(c)) {
            return Err{invalid("the equation has the character '", c, "'")};
        } else if (unique && contains(labels, c)) {
            return Err{invalid("the output of the equation names '", c, "' twice")};
        }
        labels += c;
    }
    return labels;
}

/// Replaces an ellipsis by the labels of `axes` axes.
std::string expand_ellipsis(std::string const& labels, size_t axes) {
    std::string expanded;
    for (char c : labels) {
        if (c != kEllipsis)
            expanded += c;
        else
            for (auto i = axes; i-- > 0;) expanded += static_cast<char>(kFirstEllipsisLabel + static_cast<char>(i));
    }
    return expanded;
}

}  // namespace

Inferred<Equation> parse(std::string_view text) {
    auto arrow = text.find("->");
    auto left = text.substr(0, arrow);
    Equation equation;
    std::map<char, int> uses;
    for (size_t at = 0; at <= left.size();) {
        auto end = std::min(left.find(',', at), left.size());
        RG_TRY(labels, labels_of(left.substr(at, end - at), false));
        for (char c : labels) ++uses[c];
        equation.inputs.push_back(std::move(labels));
        at = end + 1;
    }
    if (arrow == std::string_view::npos) {
        if (uses.contains(kEllipsis)) equation.output += kEllipsis;
        for (auto [label, count] : uses)
            if (count == 1 && label != kEllipsis) equation.output += label;
        return equation;
    }
    RG_TRY(output, labels_of(text.substr(arrow + 2), true));
    for (char c : output)
        if (!uses.contains(c) && c != kEllipsis)
            return Err{invalid("the output of the equation names '", c, "', which no input has")};
    equation.output = std::move(output);
    return equation;
}

Status name_axes(std::vector<Shape> const& operands, Equation& equation) {
    if (equation.inputs.size() != operands.size())
        return invalid("the equation has ", equation.inputs.size(), " operands, the node ", operands.size());
    size_t widest = 0;
    for (size_t i = 0; i < operands.size(); ++i) {
        auto& labels = equation.inputs[i];
        auto named = labels.size() - contains(labels, kEllipsis), rank = operands[i].size();
        if (named > rank || (named < rank && named == labels.size()))
            return invalid("operand ", i, " has ", rank, " axes, the equation names ", named);
        if (rank - named > kEllipsisLabels) return unsupported("an ellipsis of ", rank - named, " axes");
        widest = std::max(widest, rank - named);
        labels = expand_ellipsis(labels, rank - named);
    }
    if (widest && !contains(equation.output, kEllipsis))
        return invalid("the output of the equation has no \"...\" for the ", widest, " axes of the inputs'");
    equation.output = expand_ellipsis(equation.output, widest);
    return std::nullopt;
}

}  // namespace refactor::frontend::einsum
