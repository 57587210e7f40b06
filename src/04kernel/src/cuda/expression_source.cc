#include "cuda/expression_source.h"

#include "cuda/source_text.h"
#include "elementwise/elementwise.h"
#include "elementwise/reference.h"

#include <algorithm>
#include <bit>
#include <cstdio>

namespace refactor::kernel::cuda {

namespace {

bool is_half(DataType type) { return type == DataType::F16 || type == DataType::BF16; }

bool is_f8(DataType type) { return minifloat_text(type) && bits_of(type) == 8; }

/// Type of a register.
char const* register_text(DataType type) { return is_half(type) || is_f8(type) ? "float" : element_text(type); }

/// Type in memory.
char const* storage_text(DataType type) {
    if (is_half(type)) return "unsigned short";
    return type == DataType::Bool || is_f8(type) ? "unsigned char" : register_text(type);
}

std::string loaded(DataType type, std::string const& element) {
    if (type == DataType::F16) return "rg_from_f16(" + element + ")";
    if (type == DataType::BF16) return "rg_from_bf16(" + element + ")";
    if (is_f8(type)) return std::string("rg_decoded<") + minifloat_text(type) + ">(" + element + ")";
    return type == DataType::Bool ? "(" + element + " != 0)" : element;
}

std::string stored(DataType type, std::string const& value) {
    if (type == DataType::F16) return "rg_to_f16(" + value + ")";
    if (is_f8(type)) return std::string("rg_to_f8<") + minifloat_text(type) + ">(" + value + ")";
    return type == DataType::BF16 ? "rg_to_bf16(" + value + ")" : value;
}

std::string hexadecimal(uint64_t bits) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llxull", static_cast<unsigned long long>(bits));
    return text;
}

std::string f32_text(float value) { return "rg_f32((unsigned)" + hexadecimal(std::bit_cast<uint32_t>(value)) + ")"; }

std::string constant_text(ExprInstruction const& code) {
    bool exact = is_integer(code.dtype) && code.integer != 0;
    auto from = exact ? DataType::I64 : DataType::F64;
    elementwise::Number operand{code.value, code.integer};
    auto number = elementwise::evaluate({ExprOp::Cast, code.dtype}, &from, &operand);
    if (code.dtype == DataType::F64) return "rg_f64(" + hexadecimal(std::bit_cast<uint64_t>(number.real)) + ")";
    if (is_float(code.dtype)) return f32_text(static_cast<float>(number.real));
    return std::string("(") + register_text(code.dtype) + ")" + hexadecimal(static_cast<uint64_t>(number.integer));
}

bool divides_integers(ExprInstruction const& code) {
    return (code.op == ExprOp::Div || code.op == ExprOp::Mod || code.op == ExprOp::Fmod) && !is_float(code.dtype);
}

bool has_parameters(ExprOp op) { return (op >= ExprOp::LeakyRelu && op <= ExprOp::Shrink) || op == ExprOp::IsInf; }

std::string instruction_text(ExprInstruction const& code) {
    std::string text = "rg_" + std::string(name_of(code.op));
    if (code.op == ExprOp::Cast) text += std::string("<") + register_text(code.dtype) + ">";
    auto operand = [&](int k) { return "r" + std::to_string(code.operands[k]); };
    for (int k = 0; k < arity_of(code.op); ++k)
        text += (k ? ", " : "(") + (k == 1 && divides_integers(code)
                                        ? "rg_divisor(" + operand(0) + ", " + operand(1) + ", fault)"
                                        : operand(k));
    if (has_parameters(code.op)) text += ", " + f32_text(code.alpha) + ", " + f32_text(code.beta);
    text += ")";
    if (code.dtype == DataType::F16) return "rg_round_f16(" + text + ")";
    if (is_f8(code.dtype)) return std::string("rg_round_f8<") + minifloat_text(code.dtype) + ">(" + text + ")";
    return code.dtype == DataType::BF16 ? "rg_round_bf16(" + text + ")" : text;
}

class Writer {
    ElementwiseInfo const& info_;
    ExpressionLoops const& loops_;
    std::vector<DataType> const& inputs_;
    std::string const& name_;
    std::string text_;

    bool is_joined(size_t i) const { return loops_.walks[i] == Walk::Joined; }
    size_t input_word(size_t i) const { return i ? loops_.pieces() + i - 1 : 0; }
    size_t output_word(size_t i) const { return input_word(inputs_.size()) + i; }
    size_t fault_word() const { return output_word(info_.outputs.size()); }
    size_t count_word() const { return fault_word() + can_fault(info_); }
    size_t words() const { return count_word() + expression_words(loops_).size(); }
    DataType output(size_t i) const { return info_.code[info_.outputs[i]].dtype; }
    std::string number(size_t i) const { return std::to_string(i); }
    bool varies(size_t i) const {
        return loops_.walks[i] == Walk::Linear || is_joined(i) ||
               (loops_.walks[i] == Walk::Strided && loops_.steps[i].back() != 0);
    }

    /// `name_body`: all instructions on one element of each input.
    void write_body() {
        text_ += "RG_FN void " + name_ + "_body(" + (can_fault(info_) ? "rg_u64* fault, " : "");
        for (size_t i = 0; i < inputs_.size(); ++i)
            if (loops_.walks[i] != Walk::Unused)
                text_ += std::string(storage_text(inputs_[i])) + " x" + number(i) + ", ";
        for (size_t i = 0; i < info_.outputs.size(); ++i)
            text_ += (i ? ", " : "") + std::string(storage_text(output(i))) + "& y" + number(i);
        text_ += ") {\n";
        for (size_t i = 0; i < info_.code.size(); ++i) {
            auto const& code = info_.code[i];
            text_ += std::string("    ") + register_text(code.dtype) + " r" + number(i) + " = ";
            if (code.op == ExprOp::Input)
                text_ += loaded(code.dtype, "x" + number(code.operands[0]));
            else
                text_ += code.op == ExprOp::Constant ? constant_text(code) : instruction_text(code);
            text_ += ";\n";
        }
        for (size_t i = 0; i < info_.outputs.size(); ++i)
            text_ += "    y" + number(i) + " = " + stored(output(i), "r" + number(info_.outputs[i])) + ";\n";
        text_ += "}\n";
    }

    /// Offsets `o<i>` of the strided inputs for element `i` of the output.
    void write_offsets() {
        bool strided = false;
        size_t word = count_word() + 1 + loops_.sizes.size();
        std::vector<size_t> first(inputs_.size());
        for (size_t i = 0; i < inputs_.size(); ++i) {
            if (loops_.walks[i] != Walk::Strided) continue;
            text_ += "        Index o" + number(i) + " = 0;\n";
            first[i] = word, word += loops_.sizes.size(), strided = true;
        }
        if (!strided) return;
        text_ += "        Index rest = i;\n";
        for (auto axis = loops_.sizes.size(); axis-- > 0;) {
            auto size = "(Index)a.w[" + number(count_word() + 1 + axis) + "]";
            if (axis)
                text_ += "        { Index q = rest / " + size + ", c = rest - q * " + size + "; rest = q;";
            else
                text_ += "        { Index c = rest;";
            for (size_t i = 0; i < inputs_.size(); ++i)
                if (loops_.walks[i] == Walk::Strided)
                    text_ += " o" + number(i) + " += c * (Index)a.w[" + number(first[i] + axis) + "];";
            text_ += " }\n";
        }
    }

    /// `p0`, the element of input 0 for element `i` of the output: in the last piece that begins at its column or
    /// before.
    void write_piece() {
        auto first = words() - loops_.pieces() - 1;
        auto type = std::string(storage_text(inputs_[0])) + " const*";
        auto begin = [&](std::string const& at) { return "(Index)a.w[" + number(first) + " + " + at + "]"; };
        text_ += "        const Index row = i / " + begin(number(loops_.pieces())) + ", column = i - row * " +
                 begin(number(loops_.pieces())) + ";\n        int piece = 0;\n";
        for (auto half = loops_.pieces() / 2; half > 0; half /= 2)
            text_ += "        if (column >= " + begin("piece + " + number(half)) + ") piece += " + number(half) + ";\n";
        text_ += "        const Index begin = " + begin("piece") + ";\n";
        text_ += "        " + type + " p0 = (" + type + ")a.w[piece] + row * (" + begin("piece + 1") +
                 " - begin) + column - begin;\n";
    }

    std::string offset(size_t i) const {
        switch (loops_.walks[i]) {
            case Walk::Linear:
                return "i";
            case Walk::Strided:
                return "o" + number(i);
            default:
                return "0";
        }
    }

    /// One call of the body; `element` is the index within a vector, empty for elements of memory itself.
    void write_call(std::string const& indent, std::string const& element) {
        text_ += indent + name_ + "_body(" + (can_fault(info_) ? "fault, " : "");
        for (size_t i = 0; i < inputs_.size(); ++i) {
            if (loops_.walks[i] == Walk::Unused) continue;
            if (element.empty())
                text_ += "p" + number(i) + "[" + offset(i) + "], ";
            else
                text_ += varies(i) ? "v" + number(i) + ".v[" + element + "], " : "v" + number(i) + ", ";
        }
        for (size_t i = 0; i < info_.outputs.size(); ++i)
            text_ +=
                (i ? ", " : "") + (element.empty() ? "q" + number(i) + "[i]" : "u" + number(i) + ".v[" + element + "]");
        text_ += ");\n";
    }

    void write_vector_step() {
        auto width = std::to_string(loops_.vector);
        auto vec = [&](DataType type) { return std::string("rg_vec<") + storage_text(type) + ", " + width + ">"; };
        for (size_t i = 0; i < inputs_.size(); ++i) {
            if (loops_.walks[i] == Walk::Unused) continue;
            if (varies(i))
                text_ += "        " + vec(inputs_[i]) + " v" + number(i) + " = *(" + vec(inputs_[i]) + " const*)(p" +
                         number(i) + " + " + offset(i) + ");\n";
            else
                text_ += std::string("        ") + storage_text(inputs_[i]) + " v" + number(i) + " = p" + number(i) +
                         "[" + offset(i) + "];\n";
        }
        for (size_t i = 0; i < info_.outputs.size(); ++i)
            text_ += "        " + vec(output(i)) + " u" + number(i) + ";\n";
        text_ += "#pragma unroll\n        for (int k = 0; k < " + width + "; ++k)\n";
        write_call("            ", "k");
        for (size_t i = 0; i < info_.outputs.size(); ++i)
            text_ += "        *(" + vec(output(i)) + "*)(q" + number(i) + " + i) = u" + number(i) + ";\n";
    }

public:
    Writer(ElementwiseInfo const& info, ExpressionLoops const& loops, std::vector<DataType> const& inputs,
           std::string const& name)
        : info_(info), loops_(loops), inputs_(inputs), name_(name) {}

    std::string run() {
        auto const& codes = info_.code;
        if (std::any_of(codes.begin(), codes.end(), [](auto const& code) { return is_f8(code.dtype); }))
            text_ += kMinifloatSource;
        write_body();
        text_ += "struct " + name_ + "_args { rg_u64 w[" + number(words()) + "]; };\n";
        if (!loops_.begins.empty()) text_ += kArgumentSource;
        text_ += "RG_GLOBAL " + name_ + "(" + (loops_.begins.empty() ? "" : "RG_ARGUMENT ") + name_ +
                 "_args a) {\n    RG_WAIT();\n";
        text_ += std::string("    typedef ") + (loops_.wide ? "rg_u64" : "unsigned") + " Index;\n";
        for (size_t i = 0; i < inputs_.size(); ++i)
            if (loops_.walks[i] != Walk::Unused && !is_joined(i))
                text_ += std::string("    ") + storage_text(inputs_[i]) + " const* p" + number(i) + " = (" +
                         storage_text(inputs_[i]) + " const*)a.w[" + number(input_word(i)) + "];\n";
        for (size_t i = 0; i < info_.outputs.size(); ++i)
            text_ += std::string("    ") + storage_text(output(i)) + "* q" + number(i) + " = (" +
                     storage_text(output(i)) + "*)a.w[" + number(output_word(i)) + "];\n";
        if (can_fault(info_)) text_ += "    rg_u64* fault = (rg_u64*)a.w[" + number(fault_word()) + "];\n";
        auto width = std::to_string(loops_.vector);
        text_ += "    const Index n = (Index)a.w[" + number(count_word()) + "];\n";
        text_ +=
            "    RG_FOR(Index, g, (n + " + number(static_cast<size_t>(loops_.vector) - 1) + ") / " + width + ") {\n";
        text_ += "        Index i = g * " + width + ";\n";
        write_offsets();
        if (!loops_.begins.empty()) write_piece();
        if (loops_.vector == 1) {
            write_call("        ", "");
        } else {
            // Only a single row can end within a vector, and none of its inputs is strided or joined.
            if (loops_.sizes.size() == 1 && loops_.begins.empty()) {
                text_ += "        if (i + " + width + " > n) {\n            for (; i < n; ++i)\n";
                write_call("                ", "");
                text_ += "            continue;\n        }\n";
            }
            write_vector_step();
        }
        return std::move(text_) + "    }\n}\n";
    }
};

}  // namespace

bool can_fault(ElementwiseInfo const& info) {
    return std::any_of(info.code.begin(), info.code.end(), divides_integers);
}

std::optional<Rejection> why_no_source(ElementwiseInfo const& info, Request const& request) {
    // Operators are defined for the same types on all devices.
    auto on_host = request;
    on_host.device = "cpu";
    if (auto answer = elementwise_reference(info, on_host); !answer) return answer.error();
    for (auto const* list : {&request.inputs, &request.outputs})
        for (auto const& operand : *list)
            if (operand.layout != Layout::Plain) return Rejection{"blocked layout, expected plain"};
    for (auto const& code : info.code) {
        if (!register_text(code.dtype))
            return Rejection{"dtype " + std::string(name_of(code.dtype)) + " has no code yet"};
    }
    // The limit of a kernel's parameters is 4 KiB.
    constexpr size_t kMostWords = 512, kMostRank = 8;
    auto words = (request.inputs.size() + 1) * (kMostRank + 1) + request.outputs.size() + 1;
    if (words > kMostWords)
        return Rejection{std::to_string(request.inputs.size()) + " inputs, at most " +
                         std::to_string(kMostWords / (kMostRank + 1) - 2)};
    return std::nullopt;
}

std::string expression_source(ElementwiseInfo const& info, ExpressionLoops const& loops,
                              std::vector<DataType> const& inputs, std::string const& name) {
    return Writer(info, loops, inputs, name).run();
}

}  // namespace refactor::kernel::cuda
