#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace refactor::pnnx {

/// A zip archive of entries that are stored, whatever `method` claims. For tests.
inline std::string zip_of(std::vector<std::pair<std::string, std::string>> const& entries, uint16_t method = 0) {
    auto put = [](std::string& to, uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i) to += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
    };
    auto crc_of = [](std::string const& data) {
        uint32_t crc = ~0u;
        for (unsigned char c : data) {
            crc ^= c;
            for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        }
        return ~crc;
    };
    std::string archive, directory;
    for (auto const& [name, data] : entries) {
        std::string common;
        put(common, 20, 2), put(common, 0, 2), put(common, method, 2), put(common, 0, 4);
        put(common, crc_of(data), 4), put(common, data.size(), 4), put(common, data.size(), 4);
        put(common, name.size(), 2), put(common, 0, 2);
        put(directory, 0x02014b50, 4), put(directory, 20, 2);
        directory += common;
        put(directory, 0, 10), put(directory, archive.size(), 4);
        directory += name;
        put(archive, 0x04034b50, 4);
        archive += common + name + data;
    }
    auto offset = archive.size();
    archive += directory;
    put(archive, 0x06054b50, 4), put(archive, 0, 4), put(archive, entries.size(), 2), put(archive, entries.size(), 2);
    put(archive, directory.size(), 4), put(archive, offset, 4), put(archive, 0, 2);
    return archive;
}

}  // namespace refactor::pnnx
