#include "zip_archive.h"

#include "mem_manager/device.h"

#include <array>
#include <cstring>

namespace refactor::pnnx {

using mem_manager::Blob;

namespace {

// Signatures and sizes of the fixed parts of records.
constexpr uint32_t kEndOfDirectory = 0x06054b50, kEndOfDirectory64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50, kLocalHeader = 0x04034b50;
constexpr size_t kEndSize = 22, kEnd64Size = 56, kLocatorSize = 20, kEntrySize = 46, kLocalSize = 30;
constexpr uint16_t kExtra64 = 1, kEncrypted = 1;
constexpr uint32_t kIn64 = 0xffffffff;

/// Little-endian reads from a view that is checked before.
class View {
    unsigned char const* data_;
    uint64_t size_;

public:
    explicit View(Blob const& bytes) : data_(static_cast<unsigned char const*>(bytes.data())), size_(bytes.bytes()) {}
    uint64_t size() const { return size_; }
    bool holds(uint64_t offset, uint64_t count) const { return offset <= size_ && count <= size_ - offset; }
    template <class T>
    T get(uint64_t offset) const {
        T value = 0;
        for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<T>(data_[offset + i]) << (8 * i));
        return value;
    }
    std::string text(uint64_t offset, size_t count) const {
        return {reinterpret_cast<char const*>(data_) + offset, count};
    }
};

struct Directory {
    uint64_t offset = 0, size = 0, count = 0;
};

/// The record at the end, before which a comment of up to 64 KB may stand.
Result<Directory, std::string> find_directory(View const& view) {
    if (view.size() < kEndSize) return Err{std::string("it is too short")};
    uint64_t lowest = view.size() - std::min<uint64_t>(view.size(), kEndSize + 0xffff);
    for (auto at = view.size() - kEndSize + 1; at-- > lowest;) {
        if (view.get<uint32_t>(at) != kEndOfDirectory) continue;
        Directory found{view.get<uint32_t>(at + 16), view.get<uint32_t>(at + 12), view.get<uint16_t>(at + 10)};
        if (at < kLocatorSize || view.get<uint32_t>(at - kLocatorSize) != kLocator64) return found;
        auto end = view.get<uint64_t>(at - kLocatorSize + 8);
        if (!view.holds(end, kEnd64Size) || view.get<uint32_t>(end) != kEndOfDirectory64)
            return Err{std::string("the zip64 record is not where it should be")};
        return Directory{view.get<uint64_t>(end + 48), view.get<uint64_t>(end + 40), view.get<uint64_t>(end + 32)};
    }
    return Err{std::string("it has no directory")};
}

/// Slicing-by-8 tables of the reflected polynomial 0xEDB88320.
std::array<std::array<uint32_t, 256>, 8> make_crc_tables() {
    std::array<std::array<uint32_t, 256>, 8> tables{};
    for (uint32_t i = 0; i < 256; ++i) {
        auto value = i;
        for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
        tables[0][i] = value;
    }
    for (size_t k = 1; k < 8; ++k)
        for (size_t i = 0; i < 256; ++i) tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 0xff];
    return tables;
}

uint32_t crc32(unsigned char const* data, size_t size) {
    static auto const kTables = make_crc_tables();
    uint32_t crc = ~0u;
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t word = 0;
        for (size_t i = 0; i < 8; ++i) word |= static_cast<uint64_t>(data[i]) << (8 * i);
        word ^= crc, crc = 0;
        for (size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][word >> (8 * i) & 0xff];
    }
    for (; size; --size, ++data) crc = crc >> 8 ^ kTables[0][(crc ^ *data) & 0xff];
    return ~crc;
}

}  // namespace

std::shared_ptr<Blob const> part_of(std::shared_ptr<Blob const> const& bytes, size_t offset, size_t size,
                                    size_t alignment) {
    auto* data = static_cast<unsigned char const*>(bytes->data()) + offset;
    if (size == 0 || reinterpret_cast<uintptr_t>(data) % alignment) return Blob::copy_of(data, size);
    return Blob::wrap(bytes->device(), const_cast<unsigned char*>(data), size, [keep = bytes] {});
}

Result<ZipArchive, std::string> ZipArchive::open(std::shared_ptr<Blob const> bytes) {
    View view(*bytes);
    auto directory = find_directory(view);
    if (!directory) return Err{directory.error()};
    if (!view.holds(directory->offset, directory->size) || directory->count > directory->size / kEntrySize)
        return Err{std::string("its directory lies outside of it")};
    ZipArchive archive;
    auto at = directory->offset, end = directory->offset + directory->size;
    for (uint64_t i = 0; i < directory->count; ++i) {
        auto broken = [&] { return Err{"entry " + std::to_string(i) + " of its directory is broken"}; };
        if (end - at < kEntrySize || view.get<uint32_t>(at) != kDirectoryEntry) return broken();
        size_t name = view.get<uint16_t>(at + 28), extra = view.get<uint16_t>(at + 30);
        size_t comment = view.get<uint16_t>(at + 32);
        if (end - at < kEntrySize + name + extra + comment) return broken();
        Entry entry{view.get<uint32_t>(at + 42), view.get<uint32_t>(at + 24), view.get<uint32_t>(at + 20),
                    view.get<uint32_t>(at + 16), view.get<uint16_t>(at + 10), view.get<uint16_t>(at + 8)};
        auto field = at + kEntrySize + name, fields_end = field + extra;
        while (fields_end - field >= 4) {
            auto id = view.get<uint16_t>(field);
            uint64_t left = view.get<uint16_t>(field + 2);
            field += 4;
            if (left > fields_end - field) return broken();
            auto value = field;
            if (id == kExtra64) {
                for (auto* number : {&entry.size, &entry.packed, &entry.header}) {
                    if (*number != kIn64) continue;
                    if (left < 8) return broken();
                    *number = view.get<uint64_t>(value), value += 8, left -= 8;
                }
            }
            field += view.get<uint16_t>(field - 2);
        }
        auto key = view.text(at + kEntrySize, name);
        if (!archive.entries_.emplace(key, entry).second) return Err{"entry \"" + key + "\" is there twice"};
        at += kEntrySize + name + extra + comment;
    }
    archive.bytes_ = std::move(bytes);
    return archive;
}

Result<std::shared_ptr<Blob const>, std::string> ZipArchive::read(std::string const& name, size_t alignment) const {
    auto found = entries_.find(name);
    if (found == entries_.end()) return Err{std::string("it is not in the archive")};
    auto const& entry = found->second;
    if (entry.flags & kEncrypted) return Err{std::string("it is encrypted")};
    if (entry.method != 0 || entry.packed != entry.size)
        return Err{"it is compressed (method " + std::to_string(entry.method) + "), expected stored data"};
    View view(*bytes_);
    if (!view.holds(entry.header, kLocalSize) || view.get<uint32_t>(entry.header) != kLocalHeader)
        return Err{std::string("its header is not where the directory says")};
    auto data =
        entry.header + kLocalSize + view.get<uint16_t>(entry.header + 26) + view.get<uint16_t>(entry.header + 28);
    if (!view.holds(data, entry.size)) return Err{std::string("its data lies outside of the archive")};
    if (crc32(static_cast<unsigned char const*>(bytes_->data()) + data, entry.size) != entry.crc)
        return Err{std::string("its checksum is wrong: the data is damaged")};
    return part_of(bytes_, data, entry.size, alignment);
}

}  // namespace refactor::pnnx
