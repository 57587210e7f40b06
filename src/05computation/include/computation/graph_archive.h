#pragma once
#include "common/archive.h"
#include "common/data_type.h"
#include "mem_manager/blob.h"

#include <unordered_map>

namespace refactor::computation {

/// What an archive of graphs refers to by number: constants, row-major, and what kernels packed of them.
struct SavedTensor {
    std::string name;
    DataType dtype = DataType::U8;  ///< U8 for bytes that only kernels understand
    Dims dims;
    std::shared_ptr<mem_manager::Blob const> blob;
};

inline constexpr uint32_t kNoTensor = UINT32_MAX;

/// Writes graphs: plain data to an archive, bytes of tensors to a list beside it, each blob once.
class GraphWriter {
    ArchiveWriter archive_;
    std::vector<SavedTensor> tensors_;
    std::unordered_map<mem_manager::Blob const*, uint32_t> numbers_;

public:
    template <class T>
    void write(T const& value) {
        archive_.write(value);
    }
    /// The number of the tensor.
    uint32_t add(SavedTensor tensor) {
        auto [it, fresh] = numbers_.try_emplace(tensor.blob.get(), static_cast<uint32_t>(tensors_.size()));
        if (fresh) tensors_.push_back(std::move(tensor));
        return it->second;
    }
    std::vector<SavedTensor>& tensors() { return tensors_; }
    std::vector<std::byte> finish() && { return std::move(archive_).finish(); }
};

/// Reads what a `GraphWriter` wrote. Throws `InvalidModel` for what it cannot have written.
class GraphReader {
    ArchiveReader archive_;
    std::span<std::shared_ptr<mem_manager::Blob const> const> tensors_;
    int depth_ = 0;

public:
    GraphReader(std::span<std::byte const> graph, std::span<std::shared_ptr<mem_manager::Blob const> const> tensors)
        : archive_(graph), tensors_(tensors) {}
    template <class T>
    T read() {
        return archive_.read<T>();
    }
    std::shared_ptr<mem_manager::Blob const> const& tensor(uint32_t number) const {
        if (number >= tensors_.size() || !tensors_[number])
            throw InvalidModel("not what was written: tensor " + std::to_string(number) + " of " +
                               std::to_string(tensors_.size()));
        return tensors_[number];
    }
    uint32_t symbols() const { return archive_.symbols(); }
    bool at_end() const { return archive_.at_end(); }

    /// For graphs inside of graphs: throws where they are deeper than any model is.
    class Nested {
        int& depth_;

    public:
        explicit Nested(GraphReader& reader) : depth_(reader.depth_) {
            constexpr int kDeepest = 64;
            if (++depth_ > kDeepest) throw InvalidModel("not what was written: graphs in graphs in graphs");
        }
        ~Nested() { --depth_; }
        Nested(Nested const&) = delete;
        Nested& operator=(Nested const&) = delete;
    };
};

}  // namespace refactor::computation
