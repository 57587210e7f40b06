#pragma once
#include "pass.h"

namespace refactor::computation {

/// Who computes `node` on a kind of device? `place`: the device to compile for; null: the host. Of another device's
/// answers only the reasons that speak of it are kept.
kernel::Candidates ask_kernels(NodePtr node, PassContext const& context, std::string_view device,
                               mem_manager::Device* place);

}  // namespace refactor::computation
