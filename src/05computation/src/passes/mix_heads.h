#pragma once
#include "pass.h"

namespace refactor::computation {

/// Products of a few channels, which a Transpose brought last and another takes back, become products of the weights
/// with these channels where they are, [D, C] × [C, positions], and a bias an addition behind them: both transposes go.
/// Attention whose heads are mixed (talking heads: Shazeer et al., arXiv:2003.02436) has such. Weights are constants of
/// f32 with at most `kMostHeads` rows and columns; rows of more channels are worth their transposes. Runs behind
/// `fold_affine`, which makes biases, before elementwise nodes are fused.
int mix_heads(Model&, PassContext const&);

}  // namespace refactor::computation
