#include "gather_matmul/routed_product.h"

#include "common/thread_pool.h"
#include "movement/indices.h"

#include <cstring>

namespace refactor::kernel {

namespace {

/// Columns of a part: enough to be read in sequence, few enough for threads to share a matrix.
constexpr int64_t kPartColumns = 512;

int64_t most_groups(RoutedProduct const& shape, int64_t most) {
    return std::min(shape.rows, ceil_div(shape.rows, most) + std::min(shape.rows, shape.matrices));
}
int64_t order_bytes(RoutedProduct const& shape) {
    return whole_lines((shape.rows + shape.matrices + 1) * static_cast<int64_t>(sizeof(int32_t)));
}

}  // namespace

std::string RoutedProduct::set_share(int64_t x_count, int64_t y_count) {
    auto x_rows = k ? x_count / k : rows;
    share = x_rows ? rows / x_rows : 1;
    if (x_count == x_rows * k && x_rows * share == rows && y_count == rows * n) return {};
    return "X of " + std::to_string(x_count) + ", Y of " + std::to_string(y_count) + " elements and " +
           std::to_string(rows) + " indices do not fit " + std::to_string(matrices) + " matrices of " +
           std::to_string(k) + " times " + std::to_string(n);
}

int64_t RoutedProduct::matrix_of(void const* indices, int64_t t) const {
    return movement::checked_index(op, movement::index_at(indices, index, t), t, 0, matrices);
}

size_t RowGroups::bytes(RoutedProduct const& shape, int64_t most) {
    auto groups = most_groups(shape, most) * static_cast<int64_t>(sizeof(RowGroup));
    return static_cast<size_t>(order_bytes(shape) + whole_lines(groups));
}

RowGroups::RowGroups(RoutedProduct const& shape, void const* indices, int64_t most, std::byte* memory)
    : order_(reinterpret_cast<int32_t*>(memory)), groups_(reinterpret_cast<RowGroup*>(memory + order_bytes(shape))) {
    auto* begins = order_ + shape.rows;
    std::fill_n(begins, shape.matrices + 1, 0);
    for (int64_t t = 0; t < shape.rows; ++t) ++begins[shape.matrix_of(indices, t) + 1];
    for (int64_t e = 0; e < shape.matrices; ++e) {
        auto rows = begins[e + 1];
        for (int64_t r = 0; r < rows; r += most)
            groups_[count_++] = {static_cast<int32_t>(e), static_cast<int32_t>(begins[e] + r),
                                 static_cast<int32_t>(std::min(most, rows - r))};
        begins[e + 1] += begins[e];
    }
    // Begins move on as rows are put down, and become those of the next matrix.
    for (int64_t t = 0; t < shape.rows; ++t) order_[begins[shape.matrix_of(indices, t)]++] = static_cast<int32_t>(t);
}

RoutedTask::RoutedTask(RoutedProduct const& shape, BindArgs const& args, size_t indices_at, int64_t most, int64_t panel)
    : indices_at_(indices_at), output_at_(args.inputs.size()), most_(std::max<int64_t>(1, most)), shape_(shape) {
    auto parts = args.threads > 1 ? std::max<int64_t>(1, shape.n / kPartColumns) : 1;
    columns_ = ceil_div(ceil_div(shape.n, parts), panel) * panel;
    parts_ = ceil_div(shape.n, columns_);
}

void RoutedTask::put(RoutedPart const& part, float const* sums, int64_t y_row, int64_t at, int64_t count) const {
    for (int64_t i = 0; i < part.group.count; ++i)
        std::memcpy(part_of_row(part, i) + part.column + at, sums + i * y_row,
                    static_cast<size_t>(count) * sizeof(float));
}

void RoutedTask::run(void* const* arguments, runtime::RunContext const& context) const {
    RowGroups const groups(shape_, arguments[indices_at_], most_, context.workspace);
    auto* made = context.workspace + RowGroups::bytes(shape_, most_);
    auto const* x = static_cast<float const*>(arguments[0]);
    auto const step = row_bytes();
    auto chunks = chunks_of(shape_.rows, static_cast<double>(shape_.k) * 0.2, context.pool.threads());
    context.pool.parallel_for(chunks, [&](int64_t chunk, int) {
        auto begin = shape_.rows * chunk / chunks, end = shape_.rows * (chunk + 1) / chunks;
        for (int64_t g = 0; g < groups.count(); ++g)
            for (int64_t i = std::max<int64_t>(begin, groups[g].first),
                         last = std::min<int64_t>(end, groups[g].first + groups[g].count);
                 i < last; ++i)
                make_row(groups[g], x + groups.order()[i] / shape_.share * shape_.k,
                         made + static_cast<size_t>(i) * step);
    });
    context.pool.parallel_for(groups.count() * parts_, [&](int64_t unit, int worker) {
        auto const& group = groups[unit / parts_];
        RoutedPart part{};
        part.group = group, part.rows = groups.order() + group.first;
        part.made = made + static_cast<size_t>(group.first) * step;
        part.column = unit % parts_ * columns_, part.columns = std::min(columns_, shape_.n - part.column);
        part.y = static_cast<float*>(arguments[output_at_]), part.scratch = context.scratch_of(worker);
        multiply(arguments, part);
    });
}

size_t RoutedTask::workspace_bytes() const {
    return RowGroups::bytes(shape_, most_) + static_cast<size_t>(shape_.rows) * row_bytes();
}

}  // namespace refactor::kernel
