#include "cuda/launch.h"

#include "common/error.h"

#include <algorithm>
#include <array>

namespace refactor::kernel::cuda {

std::vector<Address> all_operands(size_t count) {
    std::vector<Address> addresses(count);
    for (size_t i = 0; i < count; ++i) addresses[i].operand = static_cast<int>(i);
    return addresses;
}

LaunchTask::LaunchTask(Library const& library, std::vector<Launch> launches, size_t workspace_bytes, uint64_t in_place,
                       double operations)
    : library_(library),
      launches_(std::move(launches)),
      workspace_bytes_(workspace_bytes),
      in_place_(in_place),
      operations_(operations) {
    for (auto const& launch : launches_)
        if (auto words = launch.addresses.size() + launch.numbers.size(); words > kMostWords)
            throw InternalError("a launch with " + std::to_string(words) + " words, at most " +
                                std::to_string(kMostWords));
}

namespace {

void const* base_of(Address const& address, void* const* arguments, runtime::RunContext const& context) {
    if (address.operand >= 0) return arguments[address.operand];
    if (address.operand == Address::kWorkspace) return context.workspace;
    return address.operand == Address::kFault ? context.fault : nullptr;
}

}  // namespace

void start(Library const& library, Launch const& launch, void* const* arguments, runtime::RunContext const& context,
           uint64_t const* first) {
    std::array<uint64_t, kMostWords> words;
    auto* word = words.data();
    for (auto const& address : launch.addresses) {
        auto base = reinterpret_cast<uint64_t>(base_of(address, arguments, context));
        *word++ = base ? base + address.offset : 0;
    }
    std::copy(launch.numbers.begin(), launch.numbers.end(), word);
    if (first) *word = *first;
    library.launch(context.stream, launch.function, launch.blocks, launch.threads, words.data());
}

void LaunchTask::run(void* const* arguments, runtime::RunContext const& context) const {
    for (auto const& launch : launches_) start(library_, launch, arguments, context);
}

}  // namespace refactor::kernel::cuda
