#pragma once
#include "frontend/custom_operator.h"
#include "frontend/model.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace refactor::mem_manager {
class Blob;
}

namespace refactor::pnnx {

/// A size that a caller gives: unknown, a number, or the name of a symbol.
using InputDim = std::variant<std::monostate, int64_t, std::string>;
/// Shapes of inputs by name, which replace those of the file.
using InputShapes = std::vector<std::pair<std::string, std::vector<InputDim>>>;

/// Reads a model in PNNX's own format: `param` is the text of `.pnnx.param`, `bin` the content of `.pnnx.bin`, a zip
/// archive whose data the model shares. `bin` may be null if there are no weights.
///
/// Inputs are called in0, in1 …, outputs out0, out1 … in the order of the file (tuples are flattened), as pnnx names
/// them in what it exports. An unknown size `?` is a symbol called after input and axis ("in0.2"). An input whose type
/// the file does not tell is f32 of unknown rank.
///
/// Throws `InvalidModel`, or `Unsupported` if nothing is illegal, listing every problem with the line or the node: what
/// is malformed, operators that are not lowered, arguments, types and shapes. Source: https://github.com/pnnx/pnnx.
///
/// Operators that are not built in are looked for in `customs`, the last one first: "a.b.Op" and "a.b::Op" are operator
/// Op of the domain "a.b". Their inputs are those of the node and then its weights, in the order of the file;
/// attributes are its other parameters.
frontend::Model load_pnnx(std::string_view param, std::shared_ptr<mem_manager::Blob const> bin,
                          InputShapes const& shapes = {}, frontend::CustomOperators const& customs = {});

/// Reads a model in ncnn's format as pnnx writes it: `param` is the text of `.ncnn.param`, `bin` the content of
/// `.ncnn.bin`. Its tensors have no batch axis; inputs and outputs keep the names of the file, outputs are the tensors
/// that no layer reads. An input whose sizes the file does not tell has an unknown rank; it is f32, or i32 if it leads
/// to an Embed layer. Half-precision weights are widened. Throws as `load_pnnx` does. Source:
/// https://github.com/Tencent/ncnn (docs/developer-guide).
///
/// Layers that are not built in are looked for in `customs` by their type, as above. They take no weights from the bin
/// file; parameter 3 is their attribute "p3".
frontend::Model load_ncnn(std::string_view param, std::shared_ptr<mem_manager::Blob const> bin,
                          InputShapes const& shapes = {}, frontend::CustomOperators const& customs = {});

/// Whether an operator ("nn.Conv2d", "torch.cat", …) is lowered.
bool is_supported(std::string_view type);
/// Names of all operators, sorted.
std::vector<std::string> supported_operators();

}  // namespace refactor::pnnx
