#include "cuda/scores.h"

namespace refactor::kernel::cuda {

// Source: onnxruntime, core/providers/cpu/ml/ml_common.h.
char const* const kScoresSource = R"cuda(
enum { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };
RG_FN Score rg_logistic(Score x) {
    const Score y = 1 / (1 + m_exp(-m_fabs(x)));
    return x < 0 ? 1 - y : y;
}
// The quantile of the normal distribution, by Winitzki's approximation of the inverse error function.
RG_FN Score rg_probit(Score p) {
    const float x = (float)(2 * p - 1), log = logf((1 - x) * (1 + x));
    const float half = 2 / (3.14159f * 0.147f) + 0.5f * log;
    const float root = sqrtf(-half + sqrtf(half * half - log / 0.147f));
    return (Score)(1.41421356f * (x < 0 ? -root : root));
}
RG_FN void rg_transform(Score* scores, rg_u64 count) {
    if (kTransform == kSoftmax || kTransform == kSoftmaxZero) {
        Score largest = scores[0], sum = 0;
        for (rg_u64 i = 1; i < count; ++i)
            if (largest < scores[i]) largest = scores[i];
        for (rg_u64 i = 0; i < count; ++i) {
            if (kTransform == kSoftmaxZero && m_fabs(scores[i]) <= (Score)0.0000001f) {
                scores[i] *= m_exp(-largest);
                continue;
            }
            scores[i] = m_exp(scores[i] - largest);
            sum += scores[i];
        }
        for (rg_u64 i = 0; i < count; ++i) scores[i] /= sum;
    }
    for (rg_u64 i = 0; i < count && kTransform == kLogistic; ++i) scores[i] = rg_logistic(scores[i]);
    for (rg_u64 i = 0; i < count && kTransform == kProbit; ++i) scores[i] = rg_probit(scores[i]);
}
// Both scores of two classes of which only the second one's score is known; `complement`: they add up to 1.
RG_FN void rg_expand(bool complement, Score x, Score* scores) {
    const Score other = complement ? 1 - x : -x;
    scores[0] = kTransform == kLogistic ? rg_logistic(-x) : kTransform == kProbit ? rg_probit(other) : other;
    scores[1] = kTransform == kLogistic ? rg_logistic(x) : kTransform == kProbit ? rg_probit(x) : x;
}
)cuda";

}  // namespace refactor::kernel::cuda
