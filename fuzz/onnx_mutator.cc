#include "07onnx/src/registry.h"
#include "mutate.h"
#include "onnx_text.h"

namespace refactor::fuzz {

namespace {

using onnx::AttributeKind;

std::vector<std::string> make_vocabulary() {
    std::vector<std::string> words{".",
                                   "*",
                                   "?",
                                   "-",
                                   "N",
                                   "M",
                                   "1",
                                   "7",
                                   "9",
                                   "6",
                                   "8",
                                   "10",
                                   "11",
                                   "16",
                                   "2",
                                   "3",
                                   "seq:1",
                                   "opt:1",
                                   "opt:seq:1",
                                   "map:7:1",
                                   "map:8:1",
                                   "axis=i:-1",
                                   "axis=i:1",
                                   "axes=is:0,-1",
                                   "keepdims=i:0",
                                   "mode=s:linear",
                                   "auto_pad=s:SAME_UPPER",
                                   "auto_pad=s:VALID",
                                   "to=i:10",
                                   "#7"};
    for (auto const& op : onnx::supported_operators()) words.push_back(op.op_type);
    return words;
}

std::string list(Mutation& m, bool floats) {
    std::string text;
    for (auto left = m.below(4) + 1; left; --left)
        text +=
            (text.empty() ? "" : ",") + (floats ? std::to_string(static_cast<int>(m.below(9)) - 4) + ".5" : m.number());
    return text;
}

/// A value of the kind that the operator asks for.
std::string value_of(Mutation& m, AttributeKind kind) {
    static std::vector<std::string> const kTexts{
        "linear", "nearest",   "cubic",     "constant",      "reflect",    "edge",       "wrap",
        "add",    "mul",       "max",       "min",           "SAME_UPPER", "SAME_LOWER", "VALID",
        "none",   "ij,jk->ik", "...i->...", "bidirectional", "reverse",    "half_pixel", "TF",
        "tanh",   "DCR",       "CRD",       "zeros",         "border",     "LEFT",       "RIGHT"};
    switch (kind) {
        case AttributeKind::Int:
            return "i:" + m.number();
        case AttributeKind::Float:
            return "f:" + list(m, true).substr(0, 4);
        case AttributeKind::String:
            return "s:" + m.pick(kTexts);
        case AttributeKind::Ints:
            return "is:" + list(m, false);
        case AttributeKind::Floats:
            return "fs:" + list(m, true);
        case AttributeKind::Strings:
            return "ss:" + m.pick(kTexts) + ',' + m.pick(kTexts);
        case AttributeKind::Tensor:
            return "t:" + std::to_string(1 + m.below(26)) + ';' + std::to_string(m.below(4)) + ';' + list(m, false);
        case AttributeKind::Graph:
            return "g:" + std::to_string(m.below(3));
        case AttributeKind::Type:
            return "tp:1;" + list(m, false);
    }
    return "i:1";
}

/// Sets an attribute of some node that its operator has; false if there is no such node.
bool set_attribute(Mutation& m) {
    std::vector<size_t> nodes;
    for (size_t i = 0; i < m.lines().size(); ++i)
        if (m.lines()[i].starts_with("node ")) nodes.push_back(i);
    if (nodes.empty()) return false;
    auto& line = m.lines()[m.pick(nodes)];
    auto type = line.substr(5, line.find(' ', 5) - 5);
    auto at = type.find('@');
    auto domain = at == type.npos ? std::string() : type.substr(at + 1);
    auto const* def = onnx::find_operator(domain, type.substr(0, at), 7 + m.below(22));
    if (!def || def->attributes.empty()) return false;
    auto const& attribute = m.pick(def->attributes);
    auto begin = line.find(' ' + std::string(attribute.name) + '=');
    if (begin != line.npos) line.erase(begin, std::min(line.find(' ', begin + 1), line.size()) - begin);
    line += ' ' + std::string(attribute.name) + '=' + value_of(m, attribute.kind);
    return true;
}

/// A further node on what there is.
void add_node(Mutation& m, std::vector<onnx::SupportedOperator> const& all) {
    auto const& op = m.pick(all);
    std::vector<std::string> known{""};
    size_t at = 0;
    for (size_t i = 0; i < m.lines().size(); ++i) {
        auto const& line = m.lines()[i];
        bool value = line.starts_with("input ") || line.starts_with("init ");
        bool node = line.starts_with("node ");
        if (value || node) at = i + 1;
        if (value)
            known.push_back(line.substr(line.find(' ') + 1, line.find(' ', line.find(' ') + 1) - line.find(' ') - 1));
        auto out = node ? line.find(' ', line.find(' ', 5) + 1) : line.npos;
        if (out != line.npos) known.push_back(line.substr(out + 1, line.find_first_of(" ,", out + 1) - out - 1));
    }
    auto const* def = onnx::find_operator(op.domain, op.op_type, op.first);
    size_t least = def ? static_cast<size_t>(std::max(def->inputs.least, 0)) : 1;
    std::string inputs;
    for (size_t i = 0; i < least + m.below(2); ++i) inputs += (i ? "," : "") + m.pick(known);
    auto output = "n" + std::to_string(m.below(1000));
    auto type = op.op_type + (op.domain.empty() || op.domain == "ai.onnx" ? "" : '@' + op.domain);
    auto& lines = m.lines();
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at),
                 "node " + type + ' ' + (inputs.empty() ? "-" : inputs) + ' ' + output);
    lines.push_back("output " + output + " 0 *");
}

}  // namespace

size_t mutate_onnx(char* text, size_t size, size_t most, uint32_t seed) {
    static auto const kVocabulary = make_vocabulary();
    static auto const kOperators = onnx::supported_operators();
    Mutation mutation({text, size}, seed);
    for (auto left = 1 + mutation.below(4); left; --left) {
        auto kind = mutation.below(10);
        if (kind == 0)
            add_node(mutation, kOperators);
        else if (kind > 3 || !set_attribute(mutation))
            mutation.change(kVocabulary);
    }
    return put(mutation, text, most);
}

}  // namespace refactor::fuzz
