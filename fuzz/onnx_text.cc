#include "onnx_text.h"

#include "common/data_type.h"
#include "mem_manager/blob.h"

#include <algorithm>
#include <charconv>

namespace refactor::fuzz {

using namespace refactor::onnx;
using runtime::Value;
using runtime::ValueKind;

namespace {

// Larger tensors are made as short as that, and refused.
constexpr int64_t kMaxBytes = 1 << 16;
constexpr size_t kMaxLines = 200, kMaxDepth = 60;

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    if (text == "-") return parts;
    for (size_t at = 0; at <= text.size();) {
        auto end = std::min(text.find(separator, at), text.size());
        parts.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return parts;
}

template <class T>
T number(std::string_view text) {
    T value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

template <class T>
std::vector<T> numbers(std::string_view text) {
    std::vector<T> out;
    for (auto part : parts_of(text, ',')) out.push_back(number<T>(part));
    return out;
}

std::vector<std::string> names(std::string_view text) {
    auto parts = parts_of(text, ',');
    return {parts.begin(), parts.end()};
}

DeclaredShape shape_of(std::string_view text) {
    if (text == "*") return std::nullopt;
    std::vector<DeclaredDim> dims;
    if (text == ".") return dims;
    for (auto part : parts_of(text, ',')) {
        bool digit = !part.empty() && (part[0] == '-' || (part[0] >= '0' && part[0] <= '9'));
        if (part == "?")
            dims.emplace_back();
        else if (digit)
            dims.emplace_back(number<int64_t>(part));
        else
            dims.emplace_back(std::string(part));
    }
    return dims;
}

DeclaredType type_of(std::string_view text, std::string_view shape, size_t depth = 0) {
    DeclaredType out;
    auto inside = [&](size_t skip) {
        return std::make_shared<DeclaredType const>(type_of(text.substr(skip), shape, depth + 1));
    };
    if (depth < kMaxDepth && (text.starts_with("seq:") || text.starts_with("opt:"))) {
        out.kind = text[0] == 's' ? ValueKind::Sequence : ValueKind::Optional;
        out.element = inside(4);
    } else if (depth < kMaxDepth && text.starts_with("map:")) {
        out.kind = ValueKind::Map;
        text.remove_prefix(4);
        out.dtype = number<int64_t>(text);
        out.element = inside(std::min(text.find(':'), text.size() - 1) + 1);
    } else {
        out.dtype = number<int64_t>(text), out.shape = shape_of(shape);
    }
    return out;
}

/// Elements of the sizes; nothing if they are too many, or if a size is negative.
std::optional<int64_t> exact_count(std::vector<int64_t> const& dims) {
    int64_t count = 1;
    for (auto size : dims)
        if (size < 0 || __builtin_mul_overflow(count, size, &count) || count > kMaxBytes) return std::nullopt;
    return count;
}

int64_t count_of(std::vector<int64_t> const& dims) { return exact_count(dims).value_or(kMaxBytes / 16); }

RawTensor tensor_of(std::string_view type, std::string_view shape, std::string_view values) {
    RawTensor out;
    out.dtype = number<int64_t>(type);
    if (shape != ".") out.dims = numbers<int64_t>(shape);
    auto dtype = data_type_from_onnx(out.dtype);
    auto count = count_of(out.dims);
    if (dtype == DataType::String) {
        auto texts = names(values);
        for (int64_t i = 0; i < std::min<int64_t>(count, 4096); ++i)
            out.strings.push_back(texts.empty() ? std::string() : texts[static_cast<size_t>(i) % texts.size()]);
        return out;
    }
    std::vector<std::byte> data;
    if (values.starts_with('#')) {
        data.resize(static_cast<size_t>(std::clamp<int64_t>(number<int64_t>(values.substr(1)), 0, kMaxBytes)));
    } else if (dtype) {
        data.resize(storage_bytes(*dtype, count));
        if (*dtype == DataType::I64) {
            // Not through double, which would round.
            auto list = numbers<int64_t>(values);
            for (size_t i = 0; i < data.size() / 8 && !list.empty(); ++i)
                reinterpret_cast<int64_t*>(data.data())[i] = list[i % list.size()];
        } else {
            fill(*dtype, data.data(), count, numbers<double>(values));
        }
    }
    out.blob = mem_manager::Blob::copy_of(data.data(), data.size());
    return out;
}

Value value_of(RawTensor const& raw) {
    Dims dims(raw.dims.begin(), raw.dims.end());
    auto count = exact_count(raw.dims);
    if (!count) return {};
    if (raw.dtype == static_cast<int64_t>(DataType::String))
        return raw.strings.size() == static_cast<size_t>(*count) ? Value::strings(dims, raw.strings) : Value{};
    auto dtype = data_type_from_onnx(raw.dtype);
    if (!dtype || !raw.blob || raw.blob->bytes() != storage_bytes(*dtype, *count)) return {};
    return {*dtype, dims, std::const_pointer_cast<mem_manager::Blob>(raw.blob)};
}

class Reader {
    OnnxInput& out_;
    std::vector<std::shared_ptr<GraphBuilder>> open_, closed_;

    GraphBuilder& graph() { return open_.empty() ? out_.builder.graph() : *open_.back(); }

    std::optional<RawAttribute> attribute(std::string_view kind, std::string_view text) {
        auto parts = parts_of(text, ';');
        parts.resize(3);
        if (kind == "i") return number<int64_t>(text);
        if (kind == "f") return number<float>(text);
        if (kind == "s") return std::string(text);
        if (kind == "is") return numbers<int64_t>(text);
        if (kind == "fs") return numbers<float>(text);
        if (kind == "ss") return names(text);
        if (kind == "t") return tensor_of(parts[0], parts[1], parts[2]);
        if (kind == "tp") return type_of(parts[0], parts[1]);
        auto index = number<size_t>(text);
        // Only graphs that are complete: none can hold itself. Each has one place, as in a file.
        if (kind != "g" || index >= closed_.size() || !closed_[index]) return std::nullopt;
        return std::exchange(closed_[index], nullptr);
    }

    void node(std::vector<std::string_view> const& words) {
        RawAttributes attributes;
        for (size_t i = 4; i < words.size(); ++i) {
            auto equal = words[i].find('='), colon = words[i].find(':', equal == words[i].npos ? 0 : equal);
            if (equal == words[i].npos || colon == words[i].npos) continue;
            auto value = attribute(words[i].substr(equal + 1, colon - equal - 1), words[i].substr(colon + 1));
            if (value) attributes.emplace_back(words[i].substr(0, equal), std::move(*value));
        }
        auto at = words[1].find('@');
        auto domain = at == words[1].npos ? std::string_view() : words[1].substr(at + 1);
        graph().add_node("", std::string(domain), std::string(words[1].substr(0, at)), names(words[2]), names(words[3]),
                         std::move(attributes));
    }

    void option(std::string_view key, std::vector<std::string_view> const& words) {
        auto& settings = out_.settings;
        if (key == "opset") {
            bool named = words.size() > 2;
            out_.builder.add_opset(std::string(named ? words[1] : ""), number<int64_t>(words[named ? 2 : 1]));
        } else if (key == "ir") {
            out_.builder.set_ir_version(number<int64_t>(words[1]));
        } else if (key == "sizes") {
            settings.sizes = numbers<int64_t>(words[1]);
        } else if (key == "passes") {
            settings.passes = names(words[1]);
        } else if (key == "allocator") {
            settings.allocator = words[1];
        }
    }

public:
    explicit Reader(OnnxInput& out) : out_(out) {}

    void line(std::string_view text) {
        auto words = parts_of(text, ' ');
        if (words.empty()) return;
        auto key = words[0];
        if (key == "exact") out_.settings.exact = true;
        if (key == "graph" && open_.size() < kMaxDepth) open_.push_back(std::make_shared<GraphBuilder>());
        if (key == "end" && !open_.empty()) {
            closed_.push_back(std::move(open_.back()));
            open_.pop_back();
        }
        if (words.size() > 1) option(key, words);
        if (words.size() < 4) return;
        auto name = std::string(words[1]);
        if (key == "input") graph().add_input(name, type_of(words[2], words[3]));
        if (key == "output") graph().add_output(name, type_of(words[2], words[3]));
        if (key == "value") graph().add_value_info(name, type_of(words[2], words[3]));
        if (key == "node") node(words);
        if (words.size() < 5) return;
        if (key == "init") graph().add_initializer(name, tensor_of(words[2], words[3], words[4]));
        if (key == "feed") out_.settings.values.emplace_back(name, value_of(tensor_of(words[2], words[3], words[4])));
    }
};

}  // namespace

OnnxInput parse_onnx(std::string_view text) {
    OnnxInput out;
    Reader reader(out);
    auto lines = parts_of(text, '\n');
    for (size_t i = 0; i < std::min(lines.size(), kMaxLines); ++i) reader.line(lines[i]);
    return out;
}

}  // namespace refactor::fuzz
