#pragma once
#include <cstddef>
#include <functional>
#include <memory>

namespace refactor::mem_manager {

class Device;

/// Where the bytes of a blob are until someone wants them: a file, for one.
class BlobSource {
public:
    virtual ~BlobSource() = default;
    /// Address of the bytes, if they can be used where they are; else null.
    virtual void const* direct() const = 0;
    /// The same if any address will do, even one that is no multiple of an element's size.
    virtual void const* unaligned() const { return direct(); }
    virtual void read(void* to) const = 0;
    /// The bytes will not be needed soon: memory that only mirrors them may be given up.
    virtual void discard() const {}
};

/// A block of memory of one device, freed with its last owner. The bytes may be shared by executors: writers must be
/// the only owner.
class Blob {
    struct Lazy;

    Device* device_;
    void* data_;
    size_t bytes_;
    std::function<void()> release_;
    std::unique_ptr<Lazy> lazy_;
    Device const* pinned_for_ = nullptr;

    Blob(Device& device, void* data, size_t bytes, std::function<void()> release);
    void* load() const;

public:
    /// Fresh memory with undefined content. Throws `OutOfMemory`.
    static std::shared_ptr<Blob> make(Device& device, size_t bytes);
    /// Fresh memory of the host; large blocks are pages of their own, which the system has back as soon as the blob
    /// ends. For what comes before the first run and stays, or makes room for that: a heap is left full of holes.
    static std::shared_ptr<Blob> make_pages(size_t bytes);
    /// Memory that belongs to someone else (a numpy array, a mapped file), who is told by `release` when it is no
    /// longer used.
    static std::shared_ptr<Blob> wrap(Device& device, void* data, size_t bytes, std::function<void()> release);
    /// A copy of host memory on the CPU.
    static std::shared_ptr<Blob> copy_of(void const* host, size_t bytes);
    /// Pinned host memory that belongs to someone else.
    static std::shared_ptr<Blob> wrap_pinned(Device& device, void* data, size_t bytes, std::function<void()> release);
    /// Host memory, to be read only, that takes no room before `data` is called.
    static std::shared_ptr<Blob> lazy(size_t bytes, std::unique_ptr<BlobSource> source);
    /// Host memory, to be read only, with the bytes of `known` until `forget`: the source can make them again.
    static std::shared_ptr<Blob> renewable(std::shared_ptr<Blob> known, std::unique_ptr<BlobSource> source);

    ~Blob();
    Blob(Blob const&) = delete;
    Blob& operator=(Blob const&) = delete;

    Device& device() const { return *device_; }
    /// Of a lazy blob: reads it on the first call, and keeps it. Thread-safe; throws `OutOfMemory`.
    void* data() { return lazy_ ? load() : data_; }
    void const* data() const { return lazy_ ? load() : data_; }
    /// `data`, or the bytes where the source has them, at any address.
    void const* unaligned_data() const;
    size_t bytes() const { return bytes_; }
    /// The bytes will not be needed soon: a renewable blob gives up its own unless `data` has been called. Thread-safe.
    void forget() const;
    /// Whether it is memory of the host that `device` can copy by itself (mem_manager/pinned.h).
    bool is_pinned_for(Device const& device) const;

    /// The bytes of a blob for as long as this lives: a lazy one that nobody has read stays as it is afterwards.
    class Reader {
        Blob const& blob_;
        void const* data_;
        std::shared_ptr<Blob> own_, known_;

    public:
        explicit Reader(Blob const& blob) : Reader(blob, own_) {}
        /// What must be copied is copied to `staging`, which grows as needed and serves one Reader at a time.
        Reader(Blob const& blob, std::shared_ptr<Blob>& staging);
        ~Reader();
        Reader(Reader const&) = delete;
        Reader& operator=(Reader const&) = delete;
        void const* data() const { return data_; }
    };
};

}  // namespace refactor::mem_manager
