#pragma once
#include "pass.h"

namespace refactor::computation {

/// Replaces `softmax(scale · Q·Kᵀ [+ mask]) · V` over four axes by one Attention operator, so that the scores never
/// reach memory. Understands scales on Q, on K or on the scores, broadcast masks that are added or put in the place of
/// scores
/// (`scores_of`), and the `where(isnan(p), 0, p)` that exporters put behind the softmax. A transpose that only serves
/// to lay K out as [B, H, D, T] is changed to leave K as [B, H, T, D]. Where B and H are merged ([B · H, S, D], as bmm
/// takes them), they are told apart by the Reshapes around. Needs whole expressions: run it after fuse_elementwise and
/// before fuse_epilogues.
int fuse_attention(Model&, PassContext const&);

}  // namespace refactor::computation
