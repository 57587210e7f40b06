#include "recurrent/recurrent.h"

#include "cuda/instances.h"
#include "cuda/kernels.h"

#include <bit>

namespace refactor::kernel::cuda {

namespace {

/// Bytes of R that a multiprocessor reads anew in every step of a sequence that it computes alone. It reads 64 bytes a
/// clock from L2, so that these take 2 µs: what a launch for each step costs at least.
constexpr int64_t kAloneBytes = 256 << 10;
/// Elements of R that a thread keeps in registers beside 32 sums, of the 255 registers that it has.
constexpr int64_t kResidentElements = 128;
/// Blocks of the largest cluster that every card of compute capability 9.0 and more starts.
constexpr int64_t kMostClusterBlocks = 8;
/// States of a tile in shared memory: nine rows (five of states, a product of each of four gates) take 36 KiB in f32.
constexpr int64_t kSharedValues = 1024;

/// The plugin's product of all inputs with W.
class InputProduct {
    Library library_;
    size_t workspace_ = 0;  // before `plan_`, which sets it
    void* plan_;

public:
    InputProduct(Library const& library, RefactorMatMul const& product)
        : library_(library), plan_(library_.matmul_create(product, workspace_)) {}
    ~InputProduct() { library_.matmul_destroy(plan_); }
    InputProduct(InputProduct const&) = delete;
    InputProduct& operator=(InputProduct const&) = delete;
    size_t workspace() const { return workspace_; }
    void run(void* stream, void const* x, void const* w, void* y, void* workspace) const {
        library_.matmul_run(plan_, stream, {x, w, nullptr, nullptr, nullptr, nullptr, y, workspace});
    }
};

/// Places in the workspace, in bytes.
struct RecurrentBuffers {
    size_t inputs, h, c, update, reset, product, total;

    RecurrentBuffers(RecurrentShape const& s, DataType type, bool alone, size_t product_bytes) {
        size_t at = 0;
        auto take = [&at](size_t bytes) {
            auto place = at;
            at += (bytes + 255) / 256 * 256;
            return place;
        };
        auto element = static_cast<size_t>(bits_of(type) / 8),
             wide = type == DataType::F64 ? sizeof(double) : sizeof(float);
        auto rows = static_cast<size_t>(s.directions * s.steps * s.batch),
             states = alone ? 0 : static_cast<size_t>(s.directions * s.batch * s.hidden) * wide;
        inputs = take(rows * static_cast<size_t>(s.gates * s.hidden) * element);
        h = take(2 * states), c = take(states), update = take(states), reset = take(states);
        product = take(product_bytes);
        total = at;
    }
};

/// The product of the inputs, then launches for the steps.
class DeviceRecurrent final : public runtime::Task {
    Library library_;
    std::unique_ptr<InputProduct> product_;
    RecurrentBuffers buffers_;
    LaunchTask launches_;
    double operations_;

public:
    DeviceRecurrent(Library const& library, std::unique_ptr<InputProduct> product, RecurrentBuffers const& buffers,
                    std::vector<Launch> launches, double operations)
        : library_(library),
          product_(std::move(product)),
          buffers_(buffers),
          launches_(library, std::move(launches)),
          operations_(operations) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        if (product_)
            product_->run(context.stream, arguments[0], arguments[1], context.workspace + buffers_.inputs,
                          context.workspace + buffers_.product);
        launches_.run(arguments, context);
    }
    size_t workspace_bytes() const override { return buffers_.total; }
    double operations() const override { return operations_; }
};

/// R in the registers of a cluster of blocks that computes whole sequences.
struct ResidentCells {
    int64_t blocks = 0;  ///< of a cluster; 0: R is too large
    int64_t units = 0;   ///< of a warp
    int64_t depth = 0;   ///< elements of a row that a thread keeps
    int64_t rows = 1;    ///< sequences of a tile

    ResidentCells(RecurrentShape const& s, DataType type, int capability) {
        if (type == DataType::F64) return;
        depth = ceil_div(s.hidden, 32);
        for (int64_t count = 1; count <= (capability >= 90 ? kMostClusterBlocks : 1) && !blocks; count *= 2) {
            units = ceil_div(s.hidden, count * kBlockThreads / 32);
            if (s.gates * units * depth <= kResidentElements) blocks = count;
        }
        if (!blocks) return;
        // Each sequence of a tile takes as long as the first: tiles grow only once they fill the card.
        auto tiles = std::max<int64_t>(1, kBusyBlocks / 2 / (blocks * s.directions));
        rows = std::clamp<int64_t>(ceil_div(s.batch, tiles), 1, 32 / units);
    }
};

/// The launches of one layer.
class RecurrentLaunches {
    RecurrentInfo const& info_;
    RecurrentShape const& s_;
    DataType type_;
    Instances const& instances_;
    ResidentCells resident_;
    int64_t rows_, vector_;

    char const* cell() const {
        return info_.cell == RecurrentCell::Lstm  ? "rg_cell_lstm"
               : info_.cell == RecurrentCell::Gru ? "rg_cell_gru"
                                                  : "rg_cell_rnn";
    }
    bool split() const { return info_.cell == RecurrentCell::Gru && !info_.linear_before_reset; }

    /// The first word is the number of the step, or how many sequences a tile has.
    std::vector<uint64_t> numbers(int64_t first) const {
        auto const& s = s_;
        std::vector<uint64_t> words;
        auto bits = [](float x) { return static_cast<int64_t>(std::bit_cast<uint32_t>(x)); };
        for (auto number :
             {first, s.steps, s.batch, s.hidden, s.directions, int64_t{info_.reverse},
              info_.batch_first ? int64_t{1} : s.batch, info_.batch_first ? s.steps : int64_t{1}, s.y_step, s.y_batch,
              s.y_direction, s.state_batch, s.state_direction, bits(info_.clip), int64_t{info_.input_forget}})
            words.push_back(static_cast<uint64_t>(number));
        auto functions = static_cast<int64_t>(info_.activations.size()) / s.directions;
        for (int64_t direction = 0; direction < s.directions; ++direction)
            for (int64_t i = 0; i < 3; ++i) {
                auto f = i < functions ? info_.activations[static_cast<size_t>(direction * functions + i)]
                                       : CellActivation{};
                for (auto number : {static_cast<int64_t>(f.function), bits(f.alpha), bits(f.beta)})
                    words.push_back(static_cast<uint64_t>(number));
            }
        return words;
    }
    std::vector<Address> addresses(RecurrentBuffers const& b) const {
        auto of = [](int number) { return number < 0 ? kNowhere : operand(number); };
        return {scratch(b.inputs), operand(2),       of(s_.bias),  of(s_.lengths), of(s_.peepholes),
                of(s_.initial_h),  of(s_.initial_c), scratch(b.h), scratch(b.c),   scratch(b.update),
                scratch(b.reset),  of(s_.y),         of(s_.y_h),   of(s_.y_c)};
    }

    Launch resident_layer(RecurrentBuffers const& b) const {
        auto const& r = resident_;
        auto call =
            template_text("rg_recurrent_resident", element_text(type_), cell(), split(), r.blocks, r.units, r.depth);
        return instances_.launch("rg_recurrent_resident", call, ceil_div(s_.batch, r.rows) * s_.directions * r.blocks,
                                 addresses(b), numbers(r.rows), static_cast<int>(r.blocks));
    }

public:
    RecurrentLaunches(RecurrentInfo const& info, RecurrentShape const& shape, DataType type, Instances const& instances)
        : info_(info),
          s_(shape),
          type_(type),
          instances_(instances),
          resident_(shape, type, instances.library().capability()) {
        int64_t const steps[]{shape.hidden};
        vector_ = vector_width(type, steps);
        // Sequences of a tile share what is read of R; few of them are better spread over the card.
        rows_ = std::min<int64_t>(4, power_of_two(ceil_div(shape.batch * shape.directions * 2, kBusyBlocks)));
        if (alone()) return;
        auto blocks = [&](int64_t rows) {
            return ceil_div(shape.hidden, kBlockThreads / 32) * ceil_div(shape.batch, rows) * shape.directions;
        };
        while (rows_ < 4 && rows_ < shape.batch && blocks(2 * rows_) >= kBusyBlocks / 2) rows_ *= 2;
    }
    /// A block, or a cluster of them, computes whole sequences.
    bool alone() const {
        if (resident_.blocks) return true;
        auto bytes = s_.gates * s_.hidden * s_.hidden * bits_of(type_) / 8;
        auto room = kSharedValues / (type_ == DataType::F64 ? 2 : 1);
        return bytes <= kAloneBytes && power_of_two(s_.hidden) * rows_ <= room;
    }
    std::vector<Launch> launches(RecurrentBuffers const& b) const {
        auto tiles = ceil_div(s_.batch, rows_) * s_.directions;
        auto const* type = element_text(type_);
        std::vector<Launch> list;
        if (s_.lengths >= 0)
            list.push_back(instances_.launch("rg_check_lengths", "rg_check_lengths", ceil_div(s_.batch, kBlockThreads),
                                             {operand(s_.lengths), {Address::kFault}},
                                             {static_cast<uint64_t>(s_.batch), static_cast<uint64_t>(s_.steps)}));
        if (resident_.blocks) {
            list.push_back(resident_layer(b));
            return list;
        }
        if (alone()) {
            list.push_back(instances_.launch("rg_recurrent_layer",
                                             template_text("rg_recurrent_sequence", type, cell(), split(), rows_,
                                                           vector_, std::max<int64_t>(4, power_of_two(s_.hidden))),
                                             tiles, addresses(b), numbers(0)));
            return list;
        }
        auto states = ceil_div(s_.directions * s_.batch * s_.hidden, kBlockThreads);
        auto add = [&](char const* name, std::string const& call, int64_t blocks, int64_t step) {
            list.push_back(instances_.launch(name, call, blocks, addresses(b), numbers(step)));
        };
        auto step_text = [&](char const* part) {
            return template_text("rg_recurrent_step", type, cell(), part, rows_, vector_);
        };
        add("rg_recurrent_begin", template_text("rg_recurrent_states", type, cell(), true), states, 0);
        auto blocks = ceil_div(s_.hidden, kBlockThreads / 32) * tiles;
        for (int64_t step = 0; step < s_.steps; ++step) {
            if (split()) add("rg_recurrent_reset", step_text("rg_part_reset"), blocks, step);
            add("rg_recurrent_one_step", step_text(split() ? "rg_part_state" : "rg_part_all"), blocks, step);
        }
        add("rg_recurrent_end", template_text("rg_recurrent_states", type, cell(), false), states, 0);
        return list;
    }
};

class RecurrentKernel final : public Kernel {
    RecurrentInfo info_;
    DataType type_;
    Instances instances_;

    static char const* family() {
        static auto const* const text =
            new std::string(std::string(kRecurrentSource) + kRecurrentSequenceSource + kRecurrentResidentSource);
        return text->c_str();
    }

public:
    RecurrentKernel(RecurrentInfo info, DataType type, Library const& library)
        : info_(std::move(info)), type_(type), instances_(library, family()) {}
    std::string id() const override { return id_of("recurrent", "nvrtc", type_); }

    MaybeTask bind(BindArgs const& args) const override {
        RecurrentShape s;
        if (auto why = s.init(info_, args); !why.empty()) return Err{Rejection{why}};
        auto rows = s.steps * s.batch;
        if (s.inputs == 0 || s.hidden == 0) return Err{Rejection{"no input features, or no units"}};
        std::unique_ptr<InputProduct> product;
        if (rows > 0) {
            RefactorMatMul m{};
            m.dtype = static_cast<int32_t>(type_), m.trans_b = 1, m.alpha = 1;
            m.m = rows, m.n = s.gates * s.hidden, m.k = s.inputs, m.batches = s.directions;
            m.stride_b = m.n * m.k;
            // Matrices of the second direction begin where the first end.
            m.alignment = static_cast<int32_t>(bits_of(type_) / 8);
            if (s.directions == 1) m.alignment = 64;
            product = std::make_unique<InputProduct>(instances_.library(), m);
        }
        RecurrentLaunches launches(info_, s, type_, instances_);
        RecurrentBuffers buffers(s, type_, launches.alone(), product ? product->workspace() : 0);
        auto list = s.batch > 0 ? launches.launches(buffers) : std::vector<Launch>();
        return std::unique_ptr<runtime::Task>(std::make_unique<DeviceRecurrent>(
            instances_.library(), std::move(product), buffers, std::move(list), s.operations()));
    }
};

}  // namespace

MaybeKernel recurrent_nvrtc(RecurrentInfo const& info, Request const& request) {
    auto library = Library::of(request);
    if (!library) return Err{library.error()};
    auto on_host = host_request(request);
    if (!on_host) return Err{on_host.error()};
    if (info.quantized) return reject("weights are bytes");
    if (auto answer = make_recurrent_reference(info, *on_host); !answer) return Err{answer.error()};
    return std::unique_ptr<Kernel>(std::make_unique<RecurrentKernel>(info, request.inputs[0].dtype, *library));
}

}  // namespace refactor::kernel::cuda
