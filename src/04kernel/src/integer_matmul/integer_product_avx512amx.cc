#include "integer_matmul/integer_tiles_impl.h"

namespace refactor::kernel {

void multiply_integers_avx512amx(IntegerBlock const& t) {
    multiply_by_tiles(t, integer_functions_avx512vnni().multiply);
}

}  // namespace refactor::kernel
