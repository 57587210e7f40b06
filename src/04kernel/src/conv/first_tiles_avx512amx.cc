#define RG_BF16_PAIRS
#include "conv/first_tiles_impl.h"

namespace refactor::kernel {

FirstTiles const& first_tiles_avx512amx() { return kFirstTiles; }

}  // namespace refactor::kernel
