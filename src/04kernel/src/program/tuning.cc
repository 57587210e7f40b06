#include "kernel/tuning.h"

namespace refactor::kernel {

std::optional<std::string> TuningTable::find(std::string_view key) const {
    std::lock_guard lock(mutex_);
    auto it = choices_.find(key);
    return it == choices_.end() ? std::nullopt : std::optional(it->second);
}

void TuningTable::set(std::string key, std::string kernel_id) {
    std::lock_guard lock(mutex_);
    choices_.insert_or_assign(std::move(key), std::move(kernel_id));
}

std::map<std::string, std::string, std::less<>> TuningTable::choices() const {
    std::lock_guard lock(mutex_);
    return choices_;
}

}  // namespace refactor::kernel
