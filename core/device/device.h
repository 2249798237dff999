/* SPDX-License-Identifier: Apache-2.0 */
/* A device: memory, streams and about 40 transformer-sized ops behind one table.
 *
 * A rank has one device. The CPU fills every entry; a parity suite compares other
 * devices with it. Rules for every op:
 *   - [stream] it enqueues on the device's current stream and may return before it ran;
 *     on the CPU it runs inline. One thread at a time drives a device.
 *   - it allocates nothing that outlives the call; pointers belong to the caller.
 *   - same inputs, same bits, whatever the number of threads: work is divided into
 *   tiles fixed by the shapes, and a sum has an order fixed by the shapes.
 *   - element-wise bits do not depend on the position of an element in the call, so a
 *   range may be divided anywhere (AdamW over shards).
 *   - `dtype` is that of parameters and activations: f32, f64, bf16 or f16. "wide"
 *   means cadre_dtype_wide(dtype), f32 for the 16-bit types: statistics and the
 *     gradients of parameters. Sums run in the wide dtype or wider, and a result is
 *     rounded once, to nearest even. int32 for tokens. Letters: core/tensor/shape.h.
 *   - returns CADRE_OK or CADRE_E_DEVICE / CADRE_E_RESOURCE (logged where found). */
/* lint: long file because one table is the contract of every device */
#ifndef CADRE_DEVICE_DEVICE_H
#define CADRE_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/base/memory.h"
#include "core/tensor/dtype.h"
#include "core/tensor/rotary.h"

struct cadre_device; /* state of one instance; `ops` is its first member */

enum cadre_epilogue {
    CADRE_EPILOGUE_NONE,
    CADRE_EPILOGUE_BIAS, /* c += bias */
    CADRE_EPILOGUE_BIAS_GELU, /* aux = c + bias; c = gelu_tanh(aux) */
    CADRE_EPILOGUE_GELU_BWD, /* c *= gelu_tanh'(aux); aux is read */
    CADRE_EPILOGUE_SUM_A, /* sums (M) = beta * sums + column sums of a (K, M) */
    CADRE_EPILOGUE_SUM_B, /* sums (N) = beta * sums + column sums of b (K, N) */
};

/* c (M, N) = op(a) (M, K) * op(b) (K, N) + beta * c, then the epilogue.
 * ta: a is stored (K, M); tb: b is stored (N, K). beta is 0 or 1; with 0, c is not
 * read. bias (N) or NULL; aux (M, N) with leading dimension ldc or NULL. c has `dtype`,
 * or the wide dtype where `wide` is set, and then the epilogue is SUM_A, SUM_B or none.
 * The sums are wide, and those of bias_bwd over a (where ta, lda = M) or b (where !tb,
 * ldb = N): with its bits on a device opened `exact`, else in an order that the shapes
 * fix. GELU_BWD may round c before it multiplies, as gelu_bwd after it would. */
struct cadre_gemm_term { /* op(a) (M, k) and op(b) (k, N), as in struct cadre_gemm */
    const void *a, *b;
    int64_t lda, ldb, k;
    bool tb; /* of this b */
    bool same_b; /* op(b) is (k / parts, N), the same one for each part of a */
};
#define CADRE_GEMM_TERMS 6

/* On a device opened `fixed` alone: `parts` above 1 cuts K, and the K of each term,
 * into as many equal parts (each K a multiple of them), whose products are rounded to
 * c's dtype and added in the tree of core/base/tree.h, each sum rounded. With n_terms,
 * op(a) op(b) is the sum of the products of terms (n_terms, up to CADRE_GEMM_TERMS),
 * rounded once, in their place: a, b, lda, ldb and tb are not read, and k is the sum of
 * theirs. beta is then 0. */
struct cadre_gemm {
    uint32_t dtype;
    bool wide;
    int64_t m, n, k;
    const void *a, *b;
    int64_t lda, ldb;
    bool ta, tb;
    void *c;
    int64_t ldc;
    int beta;
    enum cadre_epilogue epilogue;
    const void *bias;
    void *aux;
    void *sums;
    int64_t parts;
    const struct cadre_gemm_term *terms;
    int64_t n_terms;
};

/* Causal attention. Rows are tokens b*T + t. q (N, H, D) with leading dimension ldq, k
 * and v (N, G, D) with ldk, ldv; head h reads key/value head h / (H/G); scale
 * 1/sqrt(D). out (N, H, D) with ldo. lse (B, H, T), wide, is written by fwd and read by
 * bwd. Where `keys` is not 0, a sequence has that many rows of k, v, dk and dv, b*keys
 * + t, and its T queries stand at `position` and after: query t sees keys [0, position
 * + t], position + T <= keys; dk and dv are zero where no query sees the key. With
 * `full` there is no mask: every query sees all keys.
 * bwd reads out and dout (ldo) and overwrites dq (ldq), dk (ldk), dv (ldv).
 * Never stores T x T for more than one head per thread. */
struct cadre_attention {
    uint32_t dtype;
    int64_t batch, time, heads, kv_heads, head_size;
    int64_t position, keys;
    bool full;
    const void *q, *k, *v;
    int64_t ldq, ldk, ldv, ldo;
    void *out;
    void *lse;
    const void *dout; /* bwd only, as are the rest */
    void *dq, *dk, *dv;
};

/* Rows of k and v of a sequence. */
static inline int64_t cadre_attention_keys(const struct cadre_attention *a)
{
    return a->keys ? a->keys : a->time;
}

/* y (N, C) = norm(x) * w + b.  LayerNorm when `layer` is set (Ba et al. 2016), else
 * RMSNorm (Zhang & Sennrich 2019; no b). eps is added to the variance / mean square.
 * stats (N, 2), wide: mean and 1/std (mean is 0 for RMSNorm), written by fwd, read by
 * bwd. Where `sum` (N, C) is not NULL, fwd first writes sum = a + bias + b_sum, as
 * `add` does with the same bits, and norms that instead of x; sum may be a or b_sum.
 * bwd: dx (N, C) = d/dx, plus `residual` (N, C) added when not NULL (may be dx); dw (C)
 * and db (C), wide, with beta 0 or 1; rows are summed in fixed groups. */
struct cadre_norm {
    uint32_t dtype;
    int64_t rows, channels;
    bool layer;
    double eps;
    const void *x, *w, *b;
    const void *a, *bias, *b_sum; /* fwd only; bias (C) and b_sum (N, C) may be NULL */
    void *sum;
    void *y;
    void *stats;
    const void *dy; /* bwd only, as are the rest */
    const void *residual;
    void *dx, *dw, *db;
    int beta;
};

/* Token embedding: out (N, C) = wte[token - begin] (+ wpe[t]). Tokens outside [begin,
 * begin + count) yield a zero row (another rank holds them). wpe may be NULL;
 * `position` is the position of the first column t = 0.
 * bwd_tokens: dwte (count, C), wide, = beta * dwte + scatter of dout, added in row
 * order.
 * bwd_positions: dwpe (positions, C), wide, = beta * dwpe + sum over b in order; rows
 * >= T are zero where beta is 0. */
struct cadre_embed {
    uint32_t dtype;
    int64_t batch, time, channels;
    const int32_t *tokens; /* (N), device memory */
    int64_t begin, count;
    int64_t position, positions;
    const void *wte, *wpe;
    void *out;
    const void *dout; /* bwd only, as are the rest */
    void *dwte, *dwpe;
    int beta;
};

/* Images as rows of patches (Dosovitskiy et al. 2021). pixels (B) images of channels x
 * height x width bytes, `stride` bytes from one to the next: the values of a pixel
 * beside each other with `nhwc`, else one channel after the other. With n =
 * (height / size) * (width / size) patches, in order of rows, rows (B, n + 1, channels
 * * size * size) = (byte / 255 - mean[c]) / std[c] in the order (c, y, x) of a patch
 * for either layout; the last row of each image, of the class token, is zero. kinds (B,
 * n + 1) = 0 for patches, 1 for the class token. size divides height and width. */
#define CADRE_IMAGE_CHANNELS 3
struct cadre_patches {
    uint32_t dtype;
    int64_t batch, height, width, channels, size, stride;
    bool nhwc;
    double mean[CADRE_IMAGE_CHANNELS], std[CADRE_IMAGE_CHANNELS];
    const uint8_t *pixels;
    void *rows;
    int32_t *kinds;
};

/* Patches of an image. */
static inline int64_t cadre_patches_count(const struct cadre_patches *a)
{
    return (a->height / a->size) * (a->width / a->size);
}

/* Softmax cross-entropy over a slice of the vocabulary, without storing probabilities.
 * logits (N, V) cover classes [begin, begin + V). Target -1 ignores the row.
 * fwd: max (N), sum (N) = sum exp(logit - max), picked (N) = the target's logit, all
 * wide, or 0 where the target is outside the slice. rescale: sum *= exp(old max - max),
 * for slices with a common maximum. loss: loss_rows (N, f64) = log(sum) + max - picked,
 * 0 for ignored rows. Where `total` is set, fwd: total (N, wide) = the sum of the
 * logits, 0 for ignored rows; loss: logit_rows (N, f64) = total. bwd: logits are
 * overwritten by (softmax - onehot) * seed, 0 for ignored rows; `max` and `sum` are
 * those of the whole vocabulary. */
struct cadre_xent {
    uint32_t dtype;
    int64_t rows, vocab, begin;
    void *logits;
    const int32_t *targets; /* (N) */
    void *max, *sum, *picked, *total; /* total: NULL: not wanted */
    const void *old_max;
    double *loss_rows, *logit_rows;
    double seed;
    int64_t ld; /* fwd, on the CPU alone: of logits; 0: V */
};

/* Top-1 routing of rows to experts (Fedus et al. 2022). logits (N, E), E up to
 * CADRE_MAX_EXPERTS. fwd: probs (N, E) = the softmax of each row; choice (N) = the
 * expert of the largest logit, the first of equals; gate (N) = its probability. bwd:
 * dlogits (N, E) from dgate (N) and balance (E), which is added to the gradient of each
 * row's probabilities. probs, gate and dgate are wide. */
#define CADRE_MAX_EXPERTS 1024
struct cadre_route {
    uint32_t dtype;
    int64_t rows, experts;
    const void *logits;
    void *probs, *gate;
    int32_t *choice;
    const void *dgate; /* bwd only, as are the rest */
    const double *balance;
    void *dlogits;
};

/* Rows in another order. x, y and out are (N, C); order (N) is a permutation; weight
 * (N), wide, is that of the rows before they are ordered, NULL for 1.
 * take: out[i] = weight[order[i]] * x[order[i]].
 * put:  out[order[i]] = weight[order[i]] * x[i].
 * dot:  dots (N), wide: dots[order[i]] = the sum of x[order[i]] * y[i]. */
struct cadre_rows {
    uint32_t dtype;
    int64_t rows, channels;
    const int32_t *order;
    const void *weight;
    const void *x, *y;
    void *out, *dots;
};

/* Fake quantization (core/tensor/fake_quantize.h) of x (rows, columns): y = its values
 * on the grid, and grad = 0 where a code was clamped, kept elsewhere: the
 * straight-through gradient. y and grad may be NULL; y may be x where grad is NULL. */
struct cadre_fake_quantize {
    uint32_t dtype;
    int64_t rows, columns;
    int64_t
        group; /* weights in int4, groups of so many; 0: a row is a token, in int8 */
    bool down; /* groups lie in columns, as a Conv1D's inputs do; else in rows. The last
                  one of a row or column has what is left. */
    const void *x;
    void *y, *grad;
    bool wide; /* grad's elements are of the wide dtype */
    /* Of tokens, (rows, 2) of the wide dtype: -least and most of each row, at least 0,
     * both infinite where a value is not finite. The maximum of those of two parts of a
     * row is that of both. */
    void *found; /* written with those of x; NULL: not wanted */
    const void *range; /* what the grids are made of; NULL: x's own */
};

/* Dropout (Srivastava et al. 2014) whose mask is a function of (key, sample, position,
 * column), so it is the same however samples, time and columns are divided, and again
 * in backward. x (batch * time, columns); out = x / (1 - part), or x times 0 for the
 * part that is dropped; out may be x. The product is one of doubles, rounded to the
 * wide dtype and then to the dtype. Element e = ((first + b) * length + position + t) *
 * width + column + c of the whole is dropped where word e % 4 of cadre_rng_block(key,
 * e / 4) is below part * 2^32. */
struct cadre_dropout {
    uint32_t dtype;
    uint64_t key; /* cadre_rng_key */
    double part; /* in [0, 1) */
    uint64_t first; /* number of the first of `batch` samples, of all of the run */
    int64_t batch, time, columns; /* the part at hand */
    int64_t position, length; /* its first position of `length` */
    int64_t column, width; /* its first column of `width` */
    const void *x;
    void *out;
};

/* A flat range of a parameter under update. param, grad and states are of the op's
 * dtype; `rounded`, where not NULL, is written with the new param rounded to the op's
 * rounded_dtype. All device memory. */
struct cadre_slice {
    int64_t count;
    void *param;
    void *rounded;
    const void *grad;
    void *exp_avg, *exp_avg_sq; /* exp_avg is SGD's momentum buffer */
    double weight_decay;
};

/* AdamW over slices (Loshchilov & Hutter 2019): decoupled decay, bias correction by
 * step. grad is read as grad * *grad_scale; where that is not finite, nothing changes.
 */
struct cadre_adamw {
    uint32_t dtype; /* f32 or f64 */
    uint32_t rounded_dtype; /* bf16 or f16; 0 where no slice is rounded */
    double lr, beta1, beta2, eps;
    int64_t step; /* from 1 */
    const double *grad_scale; /* device memory */
    const struct cadre_slice *slices; /* host memory, free again on return */
    int64_t n;
    /* Above 0: gradients are the first moments after the step, and the second stay as
     * they were after so many steps. 0: both are updated. */
    int64_t held;
};

/* SGD with momentum (PyTorch's form, no dampening): buf = momentum * buf + g + wd * p,
 * p -= lr * buf. The buffers may be NULL when momentum is 0. Else as cadre_adamw. */
struct cadre_sgd {
    uint32_t dtype, rounded_dtype;
    double lr, momentum;
    int64_t step;
    const double *grad_scale;
    const struct cadre_slice *slices;
    int64_t n;
};

/* Lion over slices (Chen et al. 2023, algorithm 2): p moves by lr against the sign of
 * beta1 * m + (1 - beta1) * g, 0 where that is 0, with decoupled decay; m, in exp_avg,
 * becomes beta2 * m + (1 - beta2) * g. Else as cadre_adamw. */
struct cadre_lion {
    uint32_t dtype, rounded_dtype;
    double lr, beta1, beta2;
    const double *grad_scale;
    const struct cadre_slice *slices;
    int64_t n;
};

/* Numbers of 8 bits: code c stands for value[c], ascending in [-1, 1] or [0, 1]. x has
 * the code c for which middle[c - 1] < x <= middle[c]. */
struct cadre_codes {
    double value[256], middle[255];
};

/* Elements of a block that share a scale; divides CADRE_NORM_CHUNK. */
#define CADRE_ADAMW8_BLOCK 256

/* The largest magnitudes of each block of a slice's states, of the op's dtype
 * (ceil(count / CADRE_ADAMW8_BLOCK)) each. */
struct cadre_absmax {
    void *first, *second;
};

/* AdamW whose states are codes (Dettmers et al. 2022): exp_avg and exp_avg_sq of a
 * slice are u8, a code times the largest magnitude of its block. A block is read,
 * updated as cadre_adamw does, and stored again under its new largest magnitudes; the
 * parameters see the states before they are stored. A second moment that is not zero
 * does not become the code 0, or the next step would divide by epsilon. */
struct cadre_adamw8 {
    struct cadre_adamw adamw;
    const struct cadre_absmax *absmax; /* (adamw.n) host memory, free again on return */
    const struct cadre_codes *first, *second; /* host memory, likewise */
};

/* sums (ceil(count / CADRE_NORM_CHUNK)), device memory: the sum of squares of each
 * chunk of x, in double. The sum of a chunk with NaN or infinity is not finite. */
struct cadre_squares {
    const void *x;
    int64_t count;
    double *sums;
};

typedef uint64_t cadre_stream_id; /* 0 is the device's own compute stream */

/* A point in a device's streams. 0 has happened; others have the top bit set, which the
 * events of communicators never have. Valid as long as the device. */
typedef uint64_t cadre_device_event;
#define CADRE_DEVICE_EVENT (UINT64_C(1) << 63)

/* Elements per chunk of sum_squares; fixed, because the global norm's order depends on
 * it. */
#define CADRE_NORM_CHUNK 4096

/* Bytes of a block of CADRE_FORM_INT8: codes, then the scale. */
#define CADRE_INT8_BYTES (CADRE_INT8_BLOCK + 4)

struct cadre_device_ops {
    const char *name; /* "cpu", "cuda" */
    /* Ops return before they ran, and the host should not wait for them in every
     * step. */
    bool async;
    /* Nothing is computed: ops take time of a simulated clock alone, and memory reads
     * as zeros. What would only fill or read it need not be done. */
    bool simulated;
    void (*destroy)(struct cadre_device *);

    /* memory: 64-byte aligned; NULL when there is none. `free` accepts NULL. */
    void *(*alloc)(struct cadre_device *, size_t bytes);
    void (*free)(struct cadre_device *, void *);
    /* host memory that upload and download may use */
    void *(*alloc_pinned)(struct cadre_device *, size_t bytes);
    void (*free_pinned)(struct cadre_device *, void *);
    /* Bytes of the memory that `alloc` takes: free for everybody now, and all there is;
     * false where that is not known. */
    bool (*memory)(struct cadre_device *, uint64_t *free, uint64_t *total);
    /* May the host read and write it? [any thread] */
    bool (*host_reaches)(struct cadre_device *, const void *ptr);
    cadre_status (*copy)(struct cadre_device *, void *dst, const void *src,
                         size_t bytes);
    /* in stream order; complete on return, so host memory may be written again or
     * read */
    cadre_status (*to_device)(struct cadre_device *, void *dst, const void *host,
                              size_t);
    cadre_status (*to_host)(struct cadre_device *, void *host, const void *src, size_t);
    cadre_status (*zero)(struct cadre_device *, void *dst, size_t bytes);
    /* [stream] The same with pinned memory, which must stay unchanged until an event
     * recorded after the call has happened. */
    cadre_status (*upload)(struct cadre_device *, void *dst, const void *pinned,
                           size_t bytes);
    cadre_status (*download)(struct cadre_device *, void *pinned, const void *src,
                             size_t bytes);

    /* streams and events; on the CPU streams are one queue and events have happened */
    cadre_status (*stream_create)(struct cadre_device *, cadre_stream_id *out);
    void (*stream_destroy)(struct cadre_device *, cadre_stream_id);
    cadre_status (*set_stream)(struct cadre_device *, cadre_stream_id);
    /* The current stream of the device or worker stream as a handle for other
     * libraries: CUDA's cudaStream_t. NULL where there is none. */
    void *(*native_stream)(struct cadre_device *);
    cadre_status (*event_record)(struct cadre_device *, cadre_device_event *event);
    /* the current stream waits */
    cadre_status (*event_wait)(struct cadre_device *, cadre_device_event event);
    /* the calling thread waits [any thread] */
    cadre_status (*event_sync)(struct cadre_device *, cadre_device_event event);
    /* *happened: has it? Does not wait. [any thread] */
    cadre_status (*event_query)(struct cadre_device *, cadre_device_event event,
                                bool *happened);
    cadre_status (*synchronize)(struct cadre_device *);

    /* A view of the device for one other thread, with its own stream and scratch, for
     * memory, events, tree_add, casts and MAX by `maximum` only. Events are those of
     * the device. The view ends before the device; close accepts NULL. */
    cadre_status (*worker_stream_open)(struct cadre_device *,
                                       struct cadre_device **out);
    void (*worker_stream_close)(struct cadre_device *worker);

    /* Graphs: work between begin and end is not run but recorded under `key`, replacing
     * a previous graph; launch runs it. CADRE_E_UNSUPPORTED where the device has none
     * (then begin has no effect), and for a launch of an unknown key. */
    cadre_status (*graph_begin)(struct cadre_device *, uint64_t key);
    cadre_status (*graph_end)(struct cadre_device *, uint64_t key);
    cadre_status (*graph_launch)(struct cadre_device *, uint64_t key);

    /* Export the library algorithms chosen by timing, as lines of text ("" for none),
     * and import those of another rank in their place. Problems without a choice use
     * the library's own rule on a device opened exact, else timing; after an import of
     * NULL, which changes no choice, always the rule. tuning_library appends what
     * choices and rule depend on as one line without its end: the library, its version,
     * the processor. Equal lines and equal texts mean equal algorithms. Import:
     * CADRE_E_INVALID (logged) where the text is damaged. */
    cadre_status (*tuning_export)(struct cadre_device *, struct cadre_text *out);
    cadre_status (*tuning_import)(struct cadre_device *, const char *text);
    void (*tuning_library)(struct cadre_device *, struct cadre_text *out);

    /* A named range in a profiler's view, until the matching end. [any thread] */
    void (*range_begin)(struct cadre_device *, const char *name);
    void (*range_end)(struct cadre_device *);

    /* linear algebra */
    cadre_status (*gemm)(struct cadre_device *, const struct cadre_gemm *);
    /* db (C), wide, = beta * db + column sums of dy (N, C), rows in fixed groups */
    cadre_status (*bias_bwd)(struct cadre_device *, uint32_t dtype, const void *dy,
                             int64_t rows, int64_t channels, void *db, int beta);
    cadre_status (*attention_fwd)(struct cadre_device *,
                                  const struct cadre_attention *);
    cadre_status (*attention_bwd)(struct cadre_device *,
                                  const struct cadre_attention *);

    /* norms and pointwise */
    cadre_status (*norm_fwd)(struct cadre_device *, const struct cadre_norm *);
    cadre_status (*norm_bwd)(struct cadre_device *, const struct cadre_norm *);
    /* rotary embedding in place on x (N, H, D), row stride ld; pair (i, i + D/2) turns
     * by (position + t) * cadre_rotary_frequency(i) (half-rotation layout of Hugging
     * Face Llama); `inverse` rotates back, which is the backward pass. */
    cadre_status (*rope)(struct cadre_device *, uint32_t dtype, void *x, int64_t ld,
                         int64_t batch, int64_t time, int64_t heads, int64_t head_size,
                         const struct cadre_rotary *rotary, int64_t position,
                         bool inverse);
    /* dx = dy * gelu_tanh'(x); may be in place (dx == dy) */
    cadre_status (*gelu_bwd)(struct cadre_device *, uint32_t dtype, const void *x,
                             const void *dy, void *dx, int64_t count);
    /* y = silu(gate) * up */
    cadre_status (*swiglu_fwd)(struct cadre_device *, uint32_t dtype, const void *gate,
                               const void *up, void *y, int64_t count);
    cadre_status (*swiglu_bwd)(struct cadre_device *, uint32_t dtype, const void *gate,
                               const void *up, const void *dy, void *dgate, void *dup,
                               int64_t count);
    /* y (N, C) = a + bias (C, may be NULL) + b (N, C, may be NULL); y may be a or b */
    cadre_status (*add)(struct cadre_device *, uint32_t dtype, const void *a,
                        const void *bias, const void *b, void *y, int64_t rows,
                        int64_t channels);

    /* embedding and loss */
    cadre_status (*patches)(struct cadre_device *, const struct cadre_patches *);
    cadre_status (*embed_fwd)(struct cadre_device *, const struct cadre_embed *);
    cadre_status (*embed_bwd_tokens)(struct cadre_device *, const struct cadre_embed *);
    cadre_status (*embed_bwd_positions)(struct cadre_device *,
                                        const struct cadre_embed *);
    cadre_status (*xent_fwd)(struct cadre_device *, const struct cadre_xent *);
    cadre_status (*xent_rescale)(struct cadre_device *, const struct cadre_xent *);
    cadre_status (*xent_loss)(struct cadre_device *, const struct cadre_xent *);
    cadre_status (*xent_bwd)(struct cadre_device *, const struct cadre_xent *);

    /* optimizer and reductions */
    cadre_status (*adamw)(struct cadre_device *, const struct cadre_adamw *);
    cadre_status (*sgd)(struct cadre_device *, const struct cadre_sgd *);
    cadre_status (*lion)(struct cadre_device *, const struct cadre_lion *);
    cadre_status (*adamw8)(struct cadre_device *, const struct cadre_adamw8 *);
    cadre_status (*sum_squares)(struct cadre_device *, uint32_t dtype,
                                const struct cadre_squares *list, int64_t n);
    /* norm = unscale * the square root of the sum of chunks (n) in the tree of
     * core/base/tree.h; out[0] = norm, out[1] = unscale * min(1, clip / (norm + 1e-6)),
     * without clipping where clip is 0. Both NaN where norm is not finite. Device
     * memory. */
    cadre_status (*norm_total)(struct cadre_device *, const double *chunks, uint64_t n,
                               double clip, double unscale, double *out);
    /* *out = the sum of rows (n), in an order that n fixes. Device memory. */
    cadre_status (*sum_rows)(struct cadre_device *, const double *rows, int64_t n,
                             double *out);
    cadre_status (*scale)(struct cadre_device *, uint32_t dtype, void *x, int64_t count,
                          double by);
    /* out = a + b, one rounding per element; out may be a or b. i32 too. On a device
     * whose ops are synchronous: [any thread], and by the calling one alone; axpby with
     * factors of 1 has the same bits and uses all of the device's */
    cadre_status (*tree_add)(struct cadre_device *, uint32_t dtype, void *out,
                             const void *a, const void *b, int64_t count);
    /* out = the larger of a and b, NaN where one is; out may be a or b. i32 and u8 too.
     * Threads as tree_add. */
    cadre_status (*maximum)(struct cadre_device *, uint32_t dtype, void *out,
                            const void *a, const void *b, int64_t count);
    /* dst = src converted, round to nearest even */
    cadre_status (*cast)(struct cadre_device *, uint32_t dst_dtype, void *dst,
                         uint32_t src_dtype, const void *src, int64_t count);

    /* compression */
    /* values (k) and indices (k): the k elements of x (count <= INT32_MAX) of largest
     * magnitude, in order of index; among equals those of lower index. NaN counts as
     * larger than infinity. */
    cadre_status (*topk)(struct cadre_device *, uint32_t dtype, const void *x,
                         int64_t count, int64_t k, void *values, int32_t *indices);
    /* q (count), scales (ceil(count / block)): q = x / scale rounded to nearest even,
     * scale = largest magnitude of the block / 127, so |x - q * scale| <= scale / 2
     * (and half a unit in the last place where dtype is f32). A block of zeros has
     * scale 0; one with NaN or infinity, or beyond f32, has scale NaN and dequantises
     * to NaN. */
    cadre_status (*quantize)(struct cadre_device *, uint32_t dtype, const void *x,
                             int64_t count, int64_t block, int8_t *q, float *scales);
    /* x (count) = q * scale of its block */
    cadre_status (*dequantize)(struct cadre_device *, const int8_t *q,
                               const float *scales, int64_t block, uint32_t dtype,
                               void *x, int64_t count);
    /* x[indices[i]] += by * values[i] for i < k; indices differ and lie in [0, count):
     * CADRE_E_DEVICE where one does not. */
    cadre_status (*scatter_add)(struct cadre_device *, uint32_t dtype, void *x,
                                int64_t count, const void *values,
                                const int32_t *indices, int64_t k, double by);
    /* The columns of x (rows, columns <= rows), row-major, become orthonormal with the
     * same span (Gram-Schmidt, each column twice). A column that is zero, or lies in
     * the span of those before it, becomes a coordinate direction. NaN and infinity
     * leave NaN in their column and those after it. */
    cadre_status (*orthonormalize)(struct cadre_device *, uint32_t dtype, void *x,
                                   int64_t rows, int64_t columns);

    /* vectors and matrices of optimizers */
    /* y = a * x + b * y, rounded once more than its two products; y may be x */
    cadre_status (*axpby)(struct cadre_device *, uint32_t dtype, double a,
                          const void *x, double b, void *y, int64_t count);
    /* out = a * b, one rounding per element; out may be a or b */
    cadre_status (*mul)(struct cadre_device *, uint32_t dtype, void *out, const void *a,
                        const void *b, int64_t count);
    /* x = 1 / (sqrt(x) + eps) */
    cadre_status (*rsqrt)(struct cadre_device *, uint32_t dtype, void *x, int64_t count,
                          double eps);
    /* *out (host memory) = the sum of x[i] * y[i] in double: of each CADRE_NORM_CHUNK
     * elements, then of these in the tree of core/base/tree.h. Waits for the device. */
    cadre_status (*dot)(struct cadre_device *, uint32_t dtype, const void *x,
                        const void *y, int64_t count, double *out);
    /* out (columns, rows) = x (rows, columns) transposed; they do not overlap */
    cadre_status (*transpose)(struct cadre_device *, uint32_t dtype, void *out,
                              const void *x, int64_t rows, int64_t columns);
    /* dst (rows, columns; ldd) = src (rows, columns; lds); they do not overlap */
    cadre_status (*copy_rows)(struct cadre_device *, uint32_t dtype, void *dst,
                              int64_t ldd, const void *src, int64_t lds, int64_t rows,
                              int64_t columns);

    /* experts; on the CPU alone: CADRE_E_UNSUPPORTED (logged) elsewhere */
    cadre_status (*route_fwd)(struct cadre_device *, const struct cadre_route *);
    cadre_status (*route_bwd)(struct cadre_device *, const struct cadre_route *);
    cadre_status (*rows_take)(struct cadre_device *, const struct cadre_rows *);
    cadre_status (*rows_put)(struct cadre_device *, const struct cadre_rows *);
    cadre_status (*rows_dot)(struct cadre_device *, const struct cadre_rows *);

    /* CADRE_FORM_INT8 of <cadre/types.h>. `blocks`: ceil(count / CADRE_INT8_BLOCK) of
     * CADRE_INT8_BYTES, at any address; the codes after the last element are 0. As
     * quantize in blocks of CADRE_INT8_BLOCK, but the scale is cut to 17 bits and is at
     * least FLT_MIN (0 where all elements would round to 0): decoded in f32 or f64 and
     * encoded again, a block has the same bits. */
    cadre_status (*int8_encode)(struct cadre_device *, uint32_t dtype, const void *x,
                                int64_t count, void *blocks);
    cadre_status (*int8_decode)(struct cadre_device *, const void *blocks,
                                uint32_t dtype, void *x, int64_t count);

    /* CADRE_FORM_NF4, as core/tensor/nf4.h has it: x (count) of the blocks from the
     * tensor's block `first` on; computed in fp32. `scales` are the whole tensor's. */
    cadre_status (*nf4_decode)(struct cadre_device *, const void *blocks,
                               const float *scales, int64_t first, uint32_t dtype,
                               void *x, int64_t count);

    cadre_status (*fake_quantize)(struct cadre_device *,
                                  const struct cadre_fake_quantize *);

    cadre_status (*dropout)(struct cadre_device *, const struct cadre_dropout *);
};

struct cadre_device {
    const struct cadre_device_ops *ops;
};

/* Who multiplies fp32 and fp64 on the CPU. */
enum cadre_device_gemm {
    /* Cadre where the CPU has fused vector instructions; oneDNN for bf16 where the CPU
     * multiplies it faster than fp32 */
    CADRE_GEMM_AUTO,
    CADRE_GEMM_CADRE,
    CADRE_GEMM_LIBRARY, /* oneDNN and OpenBLAS */
};

struct cadre_device_config {
    const char *kind; /* "auto", "cpu", "cuda" */
    int threads; /* CPU cores of this rank, >= 1 */
    int index; /* of the GPU: this rank's place on its machine; taken modulo their
                  number */
    bool exact; /* algorithms by rule or from a file, never by timing */
    bool fixed; /* an element of a product depends on its own row and column alone, in
                   bits too; on the CPU alone, CADRE_E_UNSUPPORTED elsewhere */
    bool no_fused_epilogue; /* an epilogue is an op of its own, never a library's; to
                               compare */
    enum cadre_device_gemm gemm; /* on the CPU; `fixed` is Cadre's */
};

/* Stop the idle threads that a CPU library started by itself. Called first in a
 * program, before its threads; opening a device does it too. [any thread] */
void cadre_device_quiet(void);

/* Open a device. kind "cuda" is refused with the reason where no module can be opened;
 * "auto" then falls back to the CPU. On success *out is owned by the caller. Errors:
 * CADRE_E_INVALID unknown kind or threads < 1; CADRE_E_UNSUPPORTED no such device. */
cadre_status cadre_device_open(const struct cadre_device_config *config,
                               struct cadre_device **out, struct cadre_error *err);

/* Accepts NULL. */
void cadre_device_close(struct cadre_device *device);

/* Append one line about each library and instruction set the CPU device works with, for
 * `cadre doctor`. [any thread] */
void cadre_device_describe(struct cadre_text *out);

#endif
