#pragma once
#include "elementwise/loop_nest.h"
#include "elementwise/program.h"
#include "elementwise/spread.h"
#include "runtime/task.h"

namespace refactor::kernel::elementwise {

/// A tile program on one shape.
///
/// Every worker has a table of slots (addresses), some short slots for what is repeated over a tile, and tile
/// buffers for temporaries. Inputs that run along with the output are read in place, and the step that makes an output
/// writes it in place.
class TileTask final : public runtime::Task {
public:
    TileTask(std::shared_ptr<TileProgram const> program, LoopNest nest, int threads);
    void run(void* const* arguments, runtime::RunContext const& context) const override;
    size_t scratch_bytes() const override { return worker_bytes_; }
    uint64_t in_place_inputs() const override { return in_place_; }
    double operations() const override;

private:
    struct Fill {
        uint16_t input, slot;
        Access access;
        uint8_t size;  ///< bytes of an element
    };
    struct SpreadInput {
        uint16_t input, slot;
        bool once;  ///< every tile holds the same
        Spread spread;
    };
    struct Stream {
        uint16_t slot, bytes;
    };
    struct Cursor;

    void choose_tile(int threads);
    double work() const;  ///< ns, estimated
    bool has_planes(int threads) const;
    void assign_inputs();
    using Flags = SmallVector<uint8_t, 64>;  ///< of values
    void assign_blocks(Flags& uniform, Flags& repeats);
    void assign_steps();
    uint16_t add_block() { return static_cast<uint16_t>(first_block_ + blocks_++); }
    void find_in_place();
    int64_t buffers_bytes() const { return tile_padded_ * widest_ + 64; }

    std::byte** prepare(void* const* arguments, std::byte* scratch) const;
    void run_chunk(void* const* arguments, std::byte* scratch, int64_t chunk, int64_t chunks) const;
    void run_units(void* const* arguments, std::byte** slots, int64_t begin, int64_t end) const;
    void run_linear(void* const* arguments, std::byte** slots, int64_t begin, int64_t end) const;
    void run_rows(void* const* arguments, std::byte** slots, int64_t begin, int64_t end) const;
    void run_packed(void* const* arguments, std::byte** slots, int64_t begin, int64_t end) const;
    void move_streams(void* const* arguments, std::byte** slots, int64_t element) const;
    void run_body(std::byte** slots, int64_t n) const {
        for (auto const& op : body_) op.run(op, slots, n);
    }
    void fill_row(Fill const& fill, std::byte const* input, std::byte* block, Cursor const& at) const;
    bool in_last_block(Cursor const& at) const;
    void clear_padding(std::byte** slots, int64_t n) const;

    std::shared_ptr<TileProgram const> program_;
    LoopNest nest_;
    bool packed_ = false;      ///< a tile holds several whole rows
    bool by_columns_ = false;  ///< a chunk is a part of every row
    int64_t tile_ = 0;         ///< elements of a tile; packed: rows of a tile
    int64_t tile_padded_ = 0;  ///< elements of a buffer
    int64_t units_ = 0, tiles_per_row_ = 1;
    int64_t chunks_ = 1;  ///< pieces that threads share
    int64_t widest_ = 1;  ///< bytes of the widest element in a buffer
    int32_t first_constant_ = 0, first_block_ = 0, blocks_ = 0, first_buffer_ = 0, buffers_ = 0, slots_ = 0;
    size_t worker_bytes_ = 0;
    uint64_t in_place_ = 0;
    SmallVector<Stream, 6> streams_;  ///< slots whose address follows the output
    SmallVector<Fill, 4> fills_;
    std::vector<SpreadInput> spreads_;   ///< Position; packed nests: Row and RowScalar
    SmallVector<uint16_t, 24> slot_of_;  ///< of every value
    SmallVector<uint8_t, 24> repeated_, padded_;
    SmallVector<TileOp, 4> prologue_, row_prologue_;  ///< of what is repeated everywhere, and along a row
    SmallVector<TileOp, 4> body_;
};

}  // namespace refactor::kernel::elementwise
