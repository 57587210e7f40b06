#pragma once
#include "pass.h"

namespace refactor::computation {

/// Convolutions whose windows do not overlap become matrix products of windows with the weights, their epilogue kept:
/// windows of several elements that cover all of X, and on a GPU those of one, and, with the channels last, windows
/// side by side, whose elements a Transpose brings together. Windows of one element do with an activation that
/// `kernel::is_slow_in_cudnn` names. Only without groups, pads and dilations. Behind `channels_last_convolutions`,
/// before `turn_weights`.
int multiply_windows(Model&, PassContext const&);

}  // namespace refactor::computation
