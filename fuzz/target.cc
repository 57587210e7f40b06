#include "target.h"

#include <cstdio>
#include <cstdlib>

namespace refactor::fuzz {

void require(bool condition, char const* what, std::string_view detail) {
    if (condition) return;
    std::fprintf(stderr, "fuzz: %s: %.*s\n", what, static_cast<int>(detail.size()), detail.data());
    std::abort();
}

bool verbose = false;

void tell(std::string_view what) {
    if (verbose) std::printf("    %.*s\n", static_cast<int>(what.size()), what.data());
}

}  // namespace refactor::fuzz
