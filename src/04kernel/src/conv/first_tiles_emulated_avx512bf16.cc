// The loops over tiles, which this processor need not have, on emulated ones.
#include "emulated_avx512/amx.h"
//
#include "conv/first_tiles_impl.h"

namespace refactor::kernel {

FirstTiles const& emulated_first_tiles() { return kFirstTiles; }

}  // namespace refactor::kernel
