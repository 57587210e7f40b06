// The loops over tiles, which this processor need not have, on emulated ones.
#define RG_BF16_PAIRS
#include "emulated_avx512/amx.h"
//
#include "conv/first_tiles_impl.h"

namespace refactor::kernel {

FirstTiles const& emulated_first_tiles() { return kFirstTiles; }

}  // namespace refactor::kernel
