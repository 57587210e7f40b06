#include "cuda/instances.h"

namespace refactor::kernel::cuda {

Launch Instances::launch(std::string const& name, std::string const& call, int64_t blocks,
                         std::vector<Address> addresses, std::vector<uint64_t> numbers) const {
    std::lock_guard lock(mutex_);
    auto& function = functions_[call];
    if (!function) {
        // No template has this name.
        auto unique = name + "_kernel";
        auto instance = instance_text(unique, addresses.size() + numbers.size(), call);
        function = library_.load(std::string(kPrelude) + kRowsPrelude + family_ + instance, unique);
    }
    return {function, static_cast<uint32_t>(blocks), kBlockThreads, std::move(addresses), std::move(numbers)};
}

}  // namespace refactor::kernel::cuda
