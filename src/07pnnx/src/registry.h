#pragma once
#include "operator_def.h"

#include <memory>
#include <string>

namespace refactor::pnnx {

/// The definition of an operator by one of its names, or null.
OperatorDef const* find_operator(std::string_view type);

/// Gives positional arguments their names, and says what is wrong: too many, given twice, unknown.
std::vector<std::string> bind(OperatorDef const& def, Arguments& arguments);

/// The operator of one node. Without a definition it stands for one that is not supported, which has been reported:
/// what depends on it stays unknown. `label` is what messages call it, by default `type`.
std::shared_ptr<frontend::Operator const> make_operator(OperatorDef const* def, std::string type, Arguments arguments,
                                                        std::string label = {});

}  // namespace refactor::pnnx
