#include "cuda/instances.h"

namespace refactor::kernel::cuda {

Launch Instances::launch(std::string const& name, std::string const& call, int64_t blocks,
                         std::vector<Address> addresses, std::vector<uint64_t> numbers, int cluster) const {
    // No template has this name.
    auto unique = name + "_kernel";
    auto* function = functions_.get(unique, call, [&] {
        return std::string(kPrelude) + kRowsPrelude + family_ +
               instance_text(unique, addresses.size() + numbers.size(), call, cluster);
    });
    return {function, static_cast<uint32_t>(blocks), kBlockThreads, std::move(addresses), std::move(numbers)};
}

}  // namespace refactor::kernel::cuda
