#pragma once
#include "kernel/kernel.h"

namespace refactor::kernel {

using KernelResult = Result<std::unique_ptr<Kernel>, Rejection>;
using TaskResult = Result<std::unique_ptr<runtime::Task>, Rejection>;

/// A kernel that keeps its id.
class NamedKernel : public Kernel {
    std::string id_;

public:
    explicit NamedKernel(std::string id) : id_(std::move(id)) {}
    std::string id() const override { return id_; }
};

}  // namespace refactor::kernel
