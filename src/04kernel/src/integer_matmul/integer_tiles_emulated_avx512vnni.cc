// The loops over tiles, which this processor need not have, on emulated ones.
#include "emulated_avx512/amx.h"
//
#include "integer_matmul/integer_tiles_impl.h"

namespace refactor::kernel {

void multiply_on_emulated_tiles(IntegerBlock const& t) {
    multiply_by_tiles(t, integer_functions_avx512vnni().multiply);
}

}  // namespace refactor::kernel
