#include "param_file.h"

#include "frontend/tensor.h"

#include <algorithm>
#include <charconv>
#include <span>

namespace refactor::pnnx {

using frontend::concat;

namespace {

constexpr std::string_view kMagic = "7767517";
constexpr size_t kMaxRank = 64;
// Far beyond real nodes; it bounds what is quadratic in them.
constexpr size_t kMaxOperands = 4096;

struct TypeName {
    std::string_view name;
    DataType dtype;
};
constexpr TypeName kTypes[]{
    {"f32", DataType::F32},   {"f64", DataType::F64},   {"f16", DataType::F16},       {"i32", DataType::I32},
    {"i64", DataType::I64},   {"i16", DataType::I16},   {"i8", DataType::I8},         {"u8", DataType::U8},
    {"bool", DataType::Bool}, {"bf16", DataType::BF16}, {"c64", DataType::Complex64}, {"c128", DataType::Complex128},
};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// Words of a line; a quoted part may hold spaces.
std::vector<std::string_view> words_of(std::string_view line) {
    std::vector<std::string_view> words;
    for (size_t at = 0; at < line.size();) {
        if (is_space(line[at])) {
            ++at;
            continue;
        }
        auto begin = at;
        for (bool quoted = false; at < line.size() && (quoted || !is_space(line[at])); ++at)
            if (line[at] == '"') quoted = !quoted;
        words.push_back(line.substr(begin, at - begin));
    }
    return words;
}

std::optional<size_t> count_of(std::string_view word) {
    uint32_t count = 0;
    auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), count);
    if (problem != std::errc() || end != word.data() + word.size()) return std::nullopt;
    return count;
}

std::optional<WrittenDim> dim_of(std::string_view word) {
    if (word == "?") return WrittenDim{};
    if (word.starts_with('%') && word.size() > 1) return WrittenDim{std::string(word.substr(1))};
    int64_t size = 0;
    auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), size);
    if (problem != std::errc() || end != word.data() + word.size() || size < -1) return std::nullopt;
    return size < 0 ? WrittenDim{} : WrittenDim{size};
}

/// Null: not in the form `(sizes)type`. A type that pnnx does not know either ("null") is Undefined.
std::optional<WrittenType> type_of(std::string_view text) {
    auto close = text.find(')');
    if (!text.starts_with('(') || close == text.npos) return std::nullopt;
    WrittenType type;
    auto name = text.substr(close + 1);
    auto known = std::find_if(std::begin(kTypes), std::end(kTypes), [&](TypeName const& t) { return t.name == name; });
    if (known != std::end(kTypes)) type.dtype = known->dtype;
    if (known == std::end(kTypes) && name != "null" && name != "c32") return std::nullopt;
    for (auto sizes = text.substr(1, close - 1); !sizes.empty();) {
        auto comma = std::min(sizes.find(','), sizes.size());
        auto dim = dim_of(sizes.substr(0, comma));
        if (!dim || type.dims.size() == kMaxRank) return std::nullopt;
        type.dims.push_back(std::move(*dim));
        sizes.remove_prefix(std::min(comma + 1, sizes.size()));
    }
    return type;
}

class LineReader {
    std::span<std::string_view const> words_;
    ParamNode node_;
    std::string error_;

    void fail(std::string what) {
        if (error_.empty()) error_ = std::move(what);
    }

    void field(std::string_view word) {
        auto equals = word.find('=');
        if (equals == word.npos || equals == 0) return fail(concat("expected key=value, got ", quoted(word)));
        auto key = word.substr(0, equals), value = word.substr(equals + 1);
        auto kind = key[0];
        std::string name(kind == '@' || kind == '$' || kind == '#' ? key.substr(1) : key);
        if (name.empty()) return fail(concat("expected key=value, got ", quoted(word)));
        if (kind == '$') {
            node_.named_inputs.emplace_back(std::move(name), value);
        } else if (kind == '@' || kind == '#') {
            auto type = type_of(value);
            if (!type) return fail(concat(quoted(word), " is not in the form (sizes)type"));
            (kind == '@' ? node_.attributes : node_.operands).emplace_back(std::move(name), std::move(*type));
        } else {
            auto same = [&](auto const& other) { return other.first == name; };
            if (std::any_of(node_.parameters.begin(), node_.parameters.end(), same))
                return fail(concat("the parameter ", quoted(name), " is given twice"));
            node_.parameters.emplace_back(std::move(name), value);
        }
    }

public:
    LineReader(std::span<std::string_view const> words, size_t line) : words_(words) { node_.line = line; }

    Result<ParamNode, std::string> run() {
        if (words_.size() < 4) return Err{std::string("expected type, name and two counts")};
        auto inputs = count_of(words_[2]), outputs = count_of(words_[3]);
        if (!inputs || !outputs) return Err{concat(quoted(words_[inputs ? 3 : 2]), " is no count")};
        auto rest = words_.subspan(4);
        if (*inputs > rest.size() || *outputs > rest.size() - *inputs)
            return Err{concat("expected ", *inputs, " inputs and ", *outputs, " outputs, got ", rest.size(), " words")};
        if (rest.size() > kMaxOperands) return Err{concat(rest.size(), " operands and fields, at most ", kMaxOperands)};
        node_.type = words_[0], node_.name = words_[1];
        node_.inputs.assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(*inputs));
        rest = rest.subspan(*inputs);
        node_.outputs.assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(*outputs));
        for (auto word : rest.subspan(*outputs)) field(word);
        if (!error_.empty()) return Err{concat("node ", quoted(node_.name), " (", node_.type, "): ", error_)};
        return std::move(node_);
    }
};

}  // namespace

std::string quoted(std::string_view text) {
    constexpr size_t kLongest = 200;
    return concat("\"", text.substr(0, kLongest), text.size() > kLongest ? "…\"" : "\"");
}

std::vector<ParamNode> parse_param(std::string_view text, frontend::Problems& problems) {
    std::vector<ParamNode> nodes;
    std::optional<size_t> announced;
    bool magic = false;
    for (size_t line = 1; !text.empty(); ++line) {
        auto end = std::min(text.find('\n'), text.size());
        auto words = words_of(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        if (words.empty()) continue;
        auto wrong = [&](std::string what) { problems.invalid.push_back(concat("line ", line, ": ", what)); };
        if (!magic) {
            magic = true;
            if (words[0] == kMagic) continue;
            wrong(concat("expected the magic number ", kMagic, ", got ", quoted(words[0])));
            return nodes;
        }
        if (!announced) {
            announced = count_of(words[0]);
            if (announced && words.size() == 2 && count_of(words[1])) continue;
            wrong("expected the numbers of nodes and operands");
            return nodes;
        }
        auto node = LineReader(words, line).run();
        if (node)
            nodes.push_back(std::move(*node));
        else
            wrong(node.error());
    }
    if (!magic || !announced)
        problems.invalid.push_back("the param file ends before its first node");
    else if (problems.invalid.empty() && *announced != nodes.size())
        problems.invalid.push_back(concat("the param file has ", nodes.size(), " nodes, its head says ", *announced));
    return nodes;
}

}  // namespace refactor::pnnx
