#pragma once
#include "common/data_type.h"
#include "frontend/graph.h"
#include "term.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace refactor::pnnx {

/// A size as written: unknown (`?`), a number, or a name (`%batch`).
using WrittenDim = std::variant<std::monostate, int64_t, std::string>;

/// `(1,3,?,?)f32`
struct WrittenType {
    DataType dtype = DataType::Undefined;
    std::vector<WrittenDim> dims;
};

/// One line of a `.param` file.
struct ParamNode {
    size_t line = 0;
    std::string type, name;
    std::vector<std::string> inputs, outputs;
    std::vector<std::pair<std::string, std::string>> parameters;    ///< `key=value`
    std::vector<std::pair<std::string, std::string>> named_inputs;  ///< `$key=operand`
    std::vector<std::pair<std::string, WrittenType>> attributes;    ///< `@key=(2,3)f32`
    std::vector<std::pair<std::string, WrittenType>> operands;      ///< `#operand=(1,?)f32`
};

/// Reads the lines of a `.pnnx.param` or `.ncnn.param` file: after the magic number and a line with the numbers of
/// nodes and operands, one node a line: type, name, number of inputs and outputs, their operands, and fields. What is
/// wrong goes to `problems` with its line; such a line is left out.
std::vector<ParamNode> parse_param(std::string_view text, frontend::Problems& problems);

/// For messages: `text` in quotes, cut where it is long.
std::string quoted(std::string_view text);

}  // namespace refactor::pnnx
