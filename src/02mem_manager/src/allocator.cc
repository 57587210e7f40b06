#include "mem_manager/allocator.h"

#include "allocators.h"
#include "common/error.h"

namespace refactor::mem_manager {

std::unique_ptr<Allocator> make_allocator(std::string_view name, Device& device) {
    if (name == "plain") return make_plain_allocator(device);
    if (name == "mru") return make_mru_allocator(device);
    if (name == "bestfit" || name == "default") return make_bestfit_allocator(device);
    if (name == "compact") return make_compact_allocator(device);
    throw InvalidInput("unknown allocator \"" + std::string(name) +
                       "\", expected one of: default, plain, mru, bestfit, compact");
}

}  // namespace refactor::mem_manager
