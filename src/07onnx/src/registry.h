#pragma once
#include "operator_def.h"

namespace refactor::onnx {

/// The definition that holds for `op_type` in version `opset` of `domain`, or null.
OperatorDef const* find_operator(std::string_view domain, std::string_view op_type, int64_t opset);
/// Whether `op_type` is known in any version, for error messages.
bool is_known(std::string_view domain, std::string_view op_type);

/// What is wrong with the attributes and the numbers of operands of a node; empty: nothing.
std::vector<std::string> check_signature(OperatorDef const& def, std::vector<std::string> const& inputs,
                                         std::vector<std::string> const& outputs,
                                         frontend::Attributes const& attributes);

/// The operator of one node.
std::shared_ptr<frontend::Operator const> make_operator(OperatorDef const& def, int64_t opset,
                                                        frontend::Attributes attributes);

}  // namespace refactor::onnx
