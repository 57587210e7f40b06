/* Operators for the tests, and the example of docs/custom_operators.md. */
#include <refactor_graph/custom_operator.h>

#include <string.h>

/* ---- Scale: y = x * factor, of the type and the sizes of x ---- */
static int32_t infer_scale(RefactorHost const* host, RefactorContext* context) {
    char const* sizes[8];
    int32_t rank = host->input_rank(context, 0);
    if (host->input_type(context, 0) != REFACTOR_F32) return host->fail(context, "x must be f32");
    if (rank > 8) return host->fail(context, "x has more than 8 axes");
    for (int32_t axis = 0; axis < rank; ++axis) sizes[axis] = host->input_size(context, 0, (uint32_t)axis);
    return host->set_output(context, 0, REFACTOR_F32, (uint32_t)rank, sizes);
}

typedef struct Scale {
    float const* x;
    float* y;
    float factor;
} Scale;

static void scale_part(void* user, int64_t begin, int64_t end) {
    Scale* scale = user;
    for (int64_t i = begin; i < end; ++i) scale->y[i] = scale->x[i] * scale->factor;
}

static int32_t run_scale(RefactorHost const* host, RefactorContext* context, RefactorTensor const* inputs,
                         RefactorTensor const* outputs) {
    Scale scale = {inputs[0].data, outputs[0].data, 1.0f};
    int64_t count = 1;
    for (int32_t axis = 0; axis < inputs[0].rank; ++axis) count *= inputs[0].dims[axis];
    host->attribute_float(context, "factor", &scale.factor);
    host->parallel_for(context, count, 4096, scale_part, &scale);
    return 0;
}

/* ---- Positive: the elements of x that are greater than zero; how many, only the data tells ---- */
static int32_t infer_positive(RefactorHost const* host, RefactorContext* context) {
    char const* sizes[] = {NULL};
    return host->set_output(context, 0, REFACTOR_F32, 1, sizes);
}

static int32_t run_positive(RefactorHost const* host, RefactorContext* context, RefactorTensor const* inputs,
                            RefactorTensor const* outputs) {
    float const* x = inputs[0].data;
    int64_t found = 0;
    int64_t const count = inputs[0].dims[0];
    (void)outputs;
    for (int64_t i = 0; i < count; ++i) found += x[i] > 0;
    float* y = host->allocate(context, 0, 1, &found);
    if (!y) return 1;
    for (int64_t i = 0; i < count; ++i)
        if (x[i] > 0) *y++ = x[i];
    return 0;
}

/* ---- Reverse: the bytes of every text of x [N], with one more text "end" behind them ---- */
static int32_t infer_reverse(RefactorHost const* host, RefactorContext* context) {
    char size[256] = "1 + ";
    char const* const sizes[] = {size};
    char const* length = host->input_size(context, 0, 0);
    if (!length || strlen(length) > 200) return host->fail(context, "x has no size");
    strcat(size, length);
    return host->set_output(context, 0, REFACTOR_TEXT, 1, sizes);
}

static int32_t run_reverse(RefactorHost const* host, RefactorContext* context, RefactorTensor const* inputs,
                           RefactorTensor const* outputs) {
    RefactorText const* x = inputs[0].data;
    int64_t const count = inputs[0].dims[0];
    (void)outputs;
    for (int64_t i = 0; i < count; ++i) {
        char bytes[64];
        if (x[i].size > sizeof bytes) return host->fail(context, "a text is longer than 64 bytes");
        for (size_t k = 0; k < x[i].size; ++k) bytes[k] = x[i].data[x[i].size - 1 - k];
        host->set_text(context, 0, i, bytes, x[i].size);
    }
    return host->set_text(context, 0, count, "end", 3);
}

/* ---- Lie: announces N + 1 elements, allocates N; with lazy=1 nothing ---- */
static int32_t infer_lie(RefactorHost const* host, RefactorContext* context) {
    char const* sizes[] = {NULL, "2"};
    return host->set_output(context, 0, REFACTOR_F32, 2, sizes);
}

static int32_t run_lie(RefactorHost const* host, RefactorContext* context, RefactorTensor const* inputs,
                       RefactorTensor const* outputs) {
    int64_t lazy = 0;
    int64_t const dims[] = {1, 3};
    (void)inputs, (void)outputs;
    if (host->attribute_int(context, "lazy", &lazy) && lazy) return 0;
    host->allocate(context, 0, 2, dims);
    return 0;
}

static RefactorKernel const scale_kernel = {"cpu", run_scale}, positive_kernel = {"cpu", run_positive},
                            reverse_kernel = {"cpu", run_reverse}, lie_kernel = {"cpu", run_lie};
#define OPERATOR(label, infer, kernel) {sizeof(RefactorOperator), "test.library", label, 1, 0, 1, 1, 1, 1, infer, &kernel, 1}
static RefactorOperator const scale = OPERATOR("Scale", infer_scale, scale_kernel),
                              positive = OPERATOR("Positive", infer_positive, positive_kernel),
                              reverse = OPERATOR("Reverse", infer_reverse, reverse_kernel),
                              lie = OPERATOR("Lie", infer_lie, lie_kernel);
static RefactorOperator const* const all[] = {&scale, &positive, &reverse, &lie};
static RefactorLibrary const library = {REFACTOR_CUSTOM_ABI, 4, all};

RefactorLibrary const* refactor_custom_operators(void) { return &library; }
