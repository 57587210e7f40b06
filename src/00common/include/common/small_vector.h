#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <type_traits>

namespace refactor {

/// Vector of trivially copyable `T` with room for `N` elements inside the object: the first `N` cost no allocation.
template <class T, uint32_t N>
class SmallVector {
    static_assert(std::is_trivially_copyable_v<T>);
    T* data_ = inline_;
    uint32_t size_ = 0, capacity_ = N;
    T inline_[N];

    void grow(uint32_t wanted) {
        auto capacity = std::max(wanted, capacity_ * 2);
        auto* fresh = new T[capacity];
        std::copy_n(data_, size_, fresh);
        if (data_ != inline_) delete[] data_;
        data_ = fresh, capacity_ = capacity;
    }

public:
    using value_type = T;
    SmallVector() = default;
    explicit SmallVector(size_t size, T value = {}) { resize(size, value); }
    SmallVector(std::initializer_list<T> list) { assign(list.begin(), list.end()); }
    template <class It>
        requires(!std::is_integral_v<It>)
    SmallVector(It first, It last) {
        assign(first, last);
    }
    SmallVector(SmallVector const& other) { assign(other.begin(), other.end()); }
    SmallVector(SmallVector&& other) noexcept { swap_in(other); }
    ~SmallVector() {
        if (data_ != inline_) delete[] data_;
    }
    SmallVector& operator=(SmallVector const& other) {
        if (this != &other) assign(other.begin(), other.end());
        return *this;
    }
    SmallVector& operator=(SmallVector&& other) noexcept {
        if (this != &other) {
            if (data_ != inline_) delete[] data_;
            swap_in(other);
        }
        return *this;
    }

    template <class It>
    void assign(It first, It last) {
        size_ = 0;
        for (; first != last; ++first) push_back(*first);
    }
    void push_back(T value) {
        if (size_ == capacity_) grow(size_ + 1);
        data_[size_++] = value;
    }
    void pop_back() { --size_; }
    void insert(T* position, T value) {
        auto index = position - data_;
        push_back(value);
        std::rotate(data_ + index, data_ + size_ - 1, data_ + size_);
    }
    void erase(T* position) {
        std::copy(position + 1, end(), position);
        --size_;
    }
    void resize(size_t size, T value = {}) {
        if (size > capacity_) grow(static_cast<uint32_t>(size));
        for (auto i = static_cast<size_t>(size_); i < size; ++i) data_[i] = value;
        size_ = static_cast<uint32_t>(size);
    }
    void clear() { size_ = 0; }

    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T* data() { return data_; }
    T const* data() const { return data_; }
    T* begin() { return data_; }
    T* end() { return data_ + size_; }
    T const* begin() const { return data_; }
    T const* end() const { return data_ + size_; }
    T& operator[](size_t i) { return data_[i]; }
    T const& operator[](size_t i) const { return data_[i]; }
    T& front() { return data_[0]; }
    T const& front() const { return data_[0]; }
    T& back() { return data_[size_ - 1]; }
    T const& back() const { return data_[size_ - 1]; }
    operator std::span<T const>() const { return {data_, size_}; }
    bool operator==(SmallVector const& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

private:
    void swap_in(SmallVector& other) noexcept {
        size_ = other.size_;
        if (other.data_ == other.inline_) {
            data_ = inline_, capacity_ = N;
            std::copy_n(other.inline_, size_, inline_);
        } else {
            data_ = other.data_, capacity_ = other.capacity_;
            other.data_ = other.inline_, other.capacity_ = N;
        }
        other.size_ = 0;
    }
};

/// Concrete sizes of a tensor, outermost first; empty for a scalar.
using Dims = SmallVector<int64_t, 8>;

/// Number of elements of `dims` (1 for a scalar). The caller guarantees that the product fits.
inline int64_t element_count(std::span<int64_t const> dims) {
    int64_t n = 1;
    for (auto d : dims) n *= d;
    return n;
}

}  // namespace refactor
