#include "made_constants.h"

#include "mem_manager/device.h"

#include <deque>

namespace refactor::computation {

using mem_manager::Blob;

namespace {

void write(std::span<SharedBlob const> from, Maker const& make, void* to) {
    std::deque<Blob::Reader> readers;
    std::vector<void const*> data;
    for (auto const& blob : from) data.push_back(blob ? readers.emplace_back(*blob).data() : nullptr);
    make(data, to);
}

class MadeSource final : public mem_manager::BlobSource {
    std::vector<SharedBlob> from_;
    Maker make_;

public:
    MadeSource(std::vector<SharedBlob> from, Maker make) : from_(std::move(from)), make_(std::move(make)) {}
    void const* direct() const override { return nullptr; }
    void read(void* to) const override { write(from_, make_, to); }
    void discard() const override {
        for (auto const& blob : from_)
            if (blob) blob->forget();
    }
};

/// Whether giving up the result saves memory, although what it is made of is held for it.
bool is_worth_making_again(size_t bytes, std::span<SharedBlob const> from) {
    constexpr size_t kFarMore = 4;
    size_t read = 0;
    for (auto const& blob : from) read += blob ? blob->bytes() : 0;
    return bytes >= kLeastMadeAgain && read / kFarMore <= bytes;
}

}  // namespace

std::unique_ptr<mem_manager::BlobSource> made_of(std::vector<SharedBlob> from, Maker make) {
    return std::make_unique<MadeSource>(std::move(from), std::move(make));
}

SharedBlob remade(std::shared_ptr<Blob> known, std::vector<SharedBlob> from, Maker make) {
    if (!is_worth_making_again(known->bytes(), from)) return known;
    return Blob::renewable(std::move(known), made_of(std::move(from), std::move(make)));
}

SharedBlob make_constant(size_t bytes, std::vector<SharedBlob> from, Maker make) {
    auto known = Blob::make_pages(bytes);
    write(from, make, known->data());
    return remade(std::move(known), std::move(from), std::move(make));
}

}  // namespace refactor::computation
