#include "cuda/instances.h"

#include "cuda/expression_source.h"

#include <array>
#include <limits>

namespace refactor::kernel::cuda {

namespace {

constexpr size_t kMostWords = 512;  // 4 KiB, the limit of a kernel's parameters

class InstanceTask final : public runtime::Task {
    Library library_;
    InstanceLaunches launches_;

public:
    InstanceTask(Library const& library, InstanceLaunches launches)
        : library_(library), launches_(std::move(launches)) {}

    void run(void* const* arguments, runtime::RunContext const& context) const override {
        std::array<uint64_t, kMostWords> words;
        for (auto const& launch : launches_.list) {
            auto* next = words.data();
            for (auto [operand, offset] : launch.places) {
                auto const* base = operand == Place::kWorkspace ? static_cast<void*>(context.workspace)
                                   : operand < 0                ? nullptr
                                                                : arguments[operand];
                *next++ = base ? reinterpret_cast<uint64_t>(base) + offset : 0;
            }
            std::copy(launch.numbers.begin(), launch.numbers.end(), next);
            library_.launch(context.stream, launch.function, static_cast<uint32_t>(launch.blocks), kBlockThreads,
                            words.data());
        }
    }
    size_t workspace_bytes() const override { return launches_.workspace; }
    uint64_t in_place_inputs() const override { return launches_.in_place; }
    double operations() const override { return launches_.operations; }
};

}  // namespace

std::unique_ptr<runtime::Task> make_launch_task(Library const& library, InstanceLaunches launches) {
    std::erase_if(launches.list, [](InstanceLaunch const& launch) { return launch.blocks == 0; });
    return std::make_unique<InstanceTask>(library, std::move(launches));
}

InstanceLaunch Instances::launch(std::string const& name, std::string const& call, int64_t blocks,
                                 std::vector<Place> places, std::vector<uint64_t> numbers) const {
    std::lock_guard lock(mutex_);
    auto& function = functions_[call];
    if (!function) {
        auto instance = instance_text(name, places.size() + numbers.size(), call);
        function = library_.load(std::string(kPrelude) + kRowsPrelude + family_ + instance, name);
    }
    return {function, blocks, std::move(places), std::move(numbers)};
}

Result<Request, Rejection> host_request(Request const& request) {
    for (auto const* list : {&request.inputs, &request.outputs})
        for (auto const& operand : *list) {
            if (operand.absent()) continue;
            if (operand.layout != Layout::Plain) return Err{Rejection{"blocked layout, expected plain"}};
        }
    auto on_host = request;
    on_host.device = "cpu", on_host.place = nullptr;
    return on_host;
}

}  // namespace refactor::kernel::cuda
