#pragma once
#include "common/result.h"
#include "mem_manager/blob.h"

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace refactor::pnnx {

/// A zip archive in memory, of stored (not compressed) entries: what pnnx writes as `.bin`. Reading copies nothing but
/// data that is not aligned. Zip64 is understood; every offset and size is checked against the archive, and the CRC of
/// what is read. Source: APPNOTE.TXT 6.3.10 of PKWARE.
class ZipArchive {
public:
    /// The error says what is wrong with the directory.
    static Result<ZipArchive, std::string> open(std::shared_ptr<mem_manager::Blob const> bytes);

    bool has(std::string const& name) const { return entries_.contains(name); }
    /// The content of an entry, at an address that is a multiple of `alignment`; what is wrong with it otherwise.
    Result<std::shared_ptr<mem_manager::Blob const>, std::string> read(std::string const& name, size_t alignment) const;

private:
    struct Entry {
        uint64_t header = 0, size = 0, packed = 0;
        uint32_t crc = 0;
        uint16_t method = 0, flags = 0;
    };
    std::shared_ptr<mem_manager::Blob const> bytes_;
    std::unordered_map<std::string, Entry> entries_;
};

/// A part of `bytes` as a blob that keeps it alive; a copy if its address is not a multiple of `alignment`.
std::shared_ptr<mem_manager::Blob const> part_of(std::shared_ptr<mem_manager::Blob const> const& bytes, size_t offset,
                                                 size_t size, size_t alignment);

}  // namespace refactor::pnnx
