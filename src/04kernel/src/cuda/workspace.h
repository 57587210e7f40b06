#pragma once
#include "runtime/task.h"

namespace refactor::kernel::cuda {

/// Bytes that a part of a workspace takes, so that the part behind it begins as the workspace does.
constexpr size_t workspace_part(size_t bytes) {
    constexpr auto kAlignment = runtime::kDeviceWorkspaceAlignment;
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace refactor::kernel::cuda
