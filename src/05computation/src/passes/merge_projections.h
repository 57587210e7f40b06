#pragma once
#include "pass.h"

namespace refactor::computation {

/// Products that make operands of one Attention from the same tensor become one product, with the columns of their
/// constant weights side by side, and a Split of its result, which `view_operands` makes part of the Attention's steps:
/// run it between `fuse_attention` and that. Only on devices, whose processors a single one of these products seldom
/// fills. Never touched: products that anything else reads, or with more than a bias behind them.
int merge_projections(Model&, PassContext const&);

}  // namespace refactor::computation
