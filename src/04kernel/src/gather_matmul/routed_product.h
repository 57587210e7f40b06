#pragma once
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

/// Sizes of a product of routed rows, known when it is bound.
struct RoutedProduct {
    char const* op;
    int64_t rows, k, n, matrices;
    int64_t share;  ///< rows of the result for each row of X
    DataType index;

    /// Why these counts do not fit the sizes, or empty; sets `share`.
    std::string set_share(int64_t x_count, int64_t y_count);
    /// Of row `t`, checked and counted from 0.
    int64_t matrix_of(void const* indices, int64_t t) const;
    double operations() const { return 2. * static_cast<double>(rows * k) * static_cast<double>(n); }
    /// How many matrices are read if they are met alike, and by how many rows each.
    double met() const { return static_cast<double>(std::max<int64_t>(1, std::min(rows, matrices))); }
    double rows_of_each() const { return static_cast<double>(rows) / met(); }
};

/// Rows that are multiplied by one matrix together.
struct RowGroup {
    int32_t matrix, first, count;  ///< `count` rows from number `first` on, in the order of their matrices
};

/// Rows in the order of their matrices, in memory of a run.
class RowGroups {
    int32_t* order_;
    RowGroup* groups_;
    int64_t count_ = 0;

public:
    static size_t bytes(RoutedProduct const&, int64_t most);
    /// Groups of at most `most` rows.
    RowGroups(RoutedProduct const&, void const* indices, int64_t most, std::byte* memory);
    int64_t count() const { return count_; }
    RowGroup const& operator[](int64_t i) const { return groups_[i]; }
    /// Numbers of the rows of Y, in order.
    int32_t const* order() const { return order_; }
};

/// One part of the columns of a group.
struct RoutedPart {
    RowGroup group;
    int32_t const* rows;    ///< of Y
    std::byte const* made;  ///< what `make_row` made of the group's rows
    int64_t column, columns;
    float* y;  ///< first row and column of Y
    std::byte* scratch;
};

/// What products of routed rows share: rows are put in order and brought into the form that the loops want, then groups
/// are multiplied, some columns at a time.
class RoutedTask : public runtime::Task {
    size_t indices_at_, output_at_;
    int64_t most_, columns_, parts_;

protected:
    RoutedProduct shape_;

    /// `most` rows in a group; columns are cut for threads at multiples of `panel`.
    RoutedTask(RoutedProduct const& shape, BindArgs const& args, size_t indices_at, int64_t most, int64_t panel);

    int64_t columns() const { return columns_; }  ///< of a part, at most
    float* part_of_row(RoutedPart const& part, int64_t i) const { return part.y + part.rows[i] * shape_.n; }
    /// Copies sums [group.count][y_row] from column `at` of the part on to where they belong.
    void put(RoutedPart const& part, float const* sums, int64_t y_row, int64_t at, int64_t count) const;

    virtual size_t row_bytes() const = 0;  ///< what `make_row` fills for each row, whole cache lines
    virtual void make_row(RowGroup const&, float const* x, std::byte* row) const = 0;
    virtual void multiply(void* const* arguments, RoutedPart const&) const = 0;

public:
    void run(void* const* arguments, runtime::RunContext const& context) const final;
    size_t workspace_bytes() const final;
    double operations() const final { return shape_.operations(); }
};

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t whole_lines(int64_t bytes) { return ceil_div(bytes, 64) * 64; }

}  // namespace refactor::kernel
