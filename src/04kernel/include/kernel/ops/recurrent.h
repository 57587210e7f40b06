#pragma once
#include "kernel/kernel.h"

namespace refactor::kernel {

enum class RecurrentCell : uint8_t { Rnn, Gru, Lstm };
/// Number of gates G: 1 (RNN), 3 (GRU: z, r, h), 4 (LSTM: i, o, f, c).
constexpr int64_t gates_of(RecurrentCell cell) {
    return cell == RecurrentCell::Lstm ? 4 : cell == RecurrentCell::Gru ? 3 : 1;
}

enum class CellFunction : uint8_t {
    Sigmoid,
    Tanh,
    Relu,
    Affine,           ///< alpha * x + beta
    LeakyRelu,        ///< x < 0 ? alpha * x : x
    ThresholdedRelu,  ///< x > alpha ? x : 0
    ScaledTanh,       ///< alpha * tanh(beta * x)
    HardSigmoid,      ///< min(max(alpha * x + beta, 0), 1)
    Elu,              ///< x < 0 ? alpha * (e^x - 1) : x
    Softsign,         ///< x / (1 + |x|)
    Softplus,         ///< log(1 + e^x)
};
struct CellActivation {
    CellFunction function = CellFunction::Sigmoid;
    float alpha = 0, beta = 0;
    bool operator==(CellActivation const&) const = default;
};

/// A recurrent layer over a sequence.
///
/// Inputs, those marked ? only if the flag is set, in this order: X [S, N, I], W [D, G·H, I], R [D, G·H, H],
/// bias? [D, 2·G·H] (of W, then of R), lengths? i32 [N] (1 to S positions of each sequence count, 0 allowed),
/// initial_h? [D, N, H], initial_c? [D, N, H], peepholes? [D, 3·H] (i, o, f). Outputs, those that are asked for: Y
/// [S, D, N, H], Y_h [D, N, H], Y_c [D, N, H] (LSTM). D is 2 if `bidirectional`. With `batch_first`: X [N, S, I],
/// initial states and Y_h, Y_c [N, D, H], Y [N, S, D, H]. Positions behind a sequence's length give zeros in Y; Y_h
/// and Y_c are the states after its last position, and zeros where the length is 0. A length outside [0, S] throws
/// InvalidInput.
///
/// Any float type; f32 is computed in f32, the others in f64. Source: ONNX LSTM-22, GRU-22, RNN-22.
///
/// `quantized` (LSTM of f32): W [D, I, G·H] and R [D, H, G·H] are u8 or i8, and four more inputs follow: scale of W
/// (f32) and zero point of W (its type), of one element, [D] or [D, G·H], and those of R. Each row that meets them, X
/// at a position of a sequence or a state of one, is rounded to u8 as DynamicQuantizeLinear says, `s` and `z` being its
/// scale and zero point: `(Σ (q - z) (w - w_zero)) · (s · w_scale)`. A row with an infinity or NaN gives NaN. Source:
/// com.microsoft DynamicQuantizeLSTM-1, which leaves open what shares a scale.
///
/// With `may_round`, on a CPU only, what products of f32 multiply may be rounded to bf16: X, W, R, and the states of
/// each step (of a GRU also r ∘ h). Sums, biases, cells and all outputs stay f32.
struct RecurrentInfo {
    static constexpr char const* kType = "Recurrent";
    RecurrentCell cell = RecurrentCell::Lstm;
    int64_t hidden = 0;
    bool bidirectional = false, reverse = false, batch_first = false;
    bool linear_before_reset = false;  ///< GRU: h = g(W x + r ∘ (R h + b) + b), else g(W x + R (r ∘ h) + b + b)
    bool input_forget = false;         ///< LSTM: f = 1 - i
    bool bias = false, lengths = false, initial_h = false, initial_c = false, peepholes = false;
    bool quantized = false;
    bool may_round = false;
    bool y = true, y_h = false, y_c = false;
    float clip = 0;  ///< 0: none; bounds the sums of the gates to [-clip, clip] (not the cell state, as onnxruntime)
    std::vector<CellActivation> activations;  ///< for each direction: RNN f; GRU f, g; LSTM f, g, h
    std::string attributes() const;
};
Candidates candidates(RecurrentInfo const&, Request const&);

}  // namespace refactor::kernel
