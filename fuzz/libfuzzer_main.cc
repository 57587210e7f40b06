// The entry points of libFuzzer for the target RG_FUZZ_TARGET.
#include "target.h"

#include <algorithm>

#define RG_JOIN(a, b) a##b
#define RG_CALL(name) RG_JOIN(name, _target)

namespace {
refactor::fuzz::Target const kTarget = refactor::fuzz::RG_CALL(RG_FUZZ_TARGET)();
}

extern "C" {

size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);
int LLVMFuzzerTestOneInput(uint8_t const* data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed);

int LLVMFuzzerTestOneInput(uint8_t const* data, size_t size) {
    kTarget.run({reinterpret_cast<char const*>(data), size});
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
    // Bytes are mutated blindly now and then: only that makes texts that no format foresees.
    if (!kTarget.mutate || seed % 8 == 0) return LLVMFuzzerMutate(data, size, most);
    return std::min(kTarget.mutate(reinterpret_cast<char*>(data), size, most, seed), most);
}
}
