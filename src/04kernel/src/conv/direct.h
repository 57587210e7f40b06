#pragma once
#include "conv/conv.h"
#include "conv/tile.h"

namespace refactor::kernel {

/// What a direct convolution is made for: whether it reads X as planes, and the tiles of an instruction set.
struct DirectForm {
    char const* id;
    Isa isa;
    TileIsa const& (*tile)();
    bool planar;

    Layout blocked() const { return isa >= Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8; }
};

/// One that rounds operands.
KernelResult make_rounded_direct(ConvInfo const&, Request const&, DirectForm const&);
/// One that multiplies f32 in three parts.
KernelResult make_split_direct(ConvInfo const&, Request const&, DirectForm const&);

}  // namespace refactor::kernel
