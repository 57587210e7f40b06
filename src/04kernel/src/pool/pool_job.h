#pragma once
#include "conv/geometry.h"
#include "pool/pool_blocked.h"

#include <vector>

namespace refactor::kernel {

/// Sizes of a pooling in vectors, which declines empty tensors, indices and negative pads.
Result<Geometry, Rejection> vector_geometry(PoolInfo const& info, BindArgs const& args);
/// Why vectors do not take these operands in their layout, or nothing.
std::string vector_mismatch(PoolInfo const& info, Request const& request, Isa isa, DataType dtype = DataType::F32);

/// Bytes per ns from where `bytes` fit, whatever the instruction set of the kernel that moves them.
double memory_bandwidth(int threads, double bytes);

/// Bands of output rows that each of `planes` is cut into for the threads; rows of one share most of what they read.
int64_t bands_of(Geometry const& g, int64_t planes, int threads);

/// What all output planes share; `x`, `y` and the rows are left to the caller.
template <class T>
PoolJobOf<T> job_of(Geometry const& g, PoolInfo const& info);
/// How many elements of the windows at each column of the output an average counts.
template <class T>
std::vector<T> counted_columns(Geometry const& g, PoolInfo const& info);
/// Sets the job, whose `x` and `y` are those of the first planes, to output plane z. `lanes`: elements of a position.
template <class T>
void move_to_plane(PoolJobOf<T>& job, Geometry const& g, int64_t z, int64_t lanes);

}  // namespace refactor::kernel
