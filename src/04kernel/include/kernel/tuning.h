#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace refactor::kernel {

/// Which kernel was the fastest, by the text of everything that the choice depends on: operator, attributes, types,
/// layouts and sizes of its operands, threads. Belongs to one processor model and one version. Thread-safe.
class TuningTable {
    mutable std::mutex mutex_;
    std::map<std::string, std::string, std::less<>> choices_;

public:
    /// Id of the kernel, if the case is known.
    std::optional<std::string> find(std::string_view key) const;
    void set(std::string key, std::string kernel_id);
    std::map<std::string, std::string, std::less<>> choices() const;
};

}  // namespace refactor::kernel
