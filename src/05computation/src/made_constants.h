#pragma once
#include "mem_manager/blob.h"

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace refactor::computation {

using SharedBlob = std::shared_ptr<mem_manager::Blob const>;

/// Writes a constant that is made of others, whose bytes it is given (null: an absent one).
using Maker = std::function<void(std::span<void const* const> from, void* to)>;

/// What `make` writes, whenever somebody reads it; what it throws reaches the reader.
std::unique_ptr<mem_manager::BlobSource> made_of(std::vector<SharedBlob> from, Maker make);

/// Bytes of the smallest constant that is worth making again.
constexpr size_t kLeastMadeAgain = 1 << 16;

/// `known`, which is what `make` writes: kept until it has been packed, and made again for who reads it after that. A
/// small one, and one that is made of far more than it holds, is kept for good.
SharedBlob remade(std::shared_ptr<mem_manager::Blob> known, std::vector<SharedBlob> from, Maker make);

/// The same of bytes that `make` writes now.
SharedBlob make_constant(size_t bytes, std::vector<SharedBlob> from, Maker make);

}  // namespace refactor::computation
