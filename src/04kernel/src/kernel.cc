#include "kernel/kernel.h"

namespace refactor::kernel {

int64_t TensorDesc::stored_count() const {
    auto block = block_of(layout);
    if (block == 1 || dims.size() < 2) return count();
    auto padded = dims;
    padded[1] = (padded[1] + block - 1) / block * block;
    return element_count(padded);
}

void Candidates::add(std::string_view id, Result<std::unique_ptr<Kernel>, Rejection> answer) {
    if (answer)
        kernels.push_back(std::move(answer).value());
    else
        rejections.push_back({std::string(id) + ": " + answer.error().reason});
}

}  // namespace refactor::kernel
