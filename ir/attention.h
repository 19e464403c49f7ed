/* Attention: softmax(q k^T / sqrt(head size)) v for each head (Vaswani et al. 2017), and its
 * gradients. Each is one kernel that never stores the scores (Dao et al. 2022). All facts about
 * attention that shape rules, interpreter, cost and emitters share are in this header. With 16-bit
 * operands a kernel may round the normalised scores and the scores' gradients to their type once
 * before it multiplies them; with f32 operands it may not. */
#ifndef DL_ATTENTION_H
#define DL_ATTENTION_H
#include <float.h>

#include "ir/graph.h"

/* Operands and results of flash_attention. After the values come up to DL_ATT_ADDENDS tensors
 * [batch or 1, heads or 1, queries or 1, keys] that are added to the scaled scores: biases, and
 * masks, which are 0 or minus infinity. After these, with dropout, come the seed and the step (i64
 * scalars), and possibly the part (an i64 scalar): the index of this part of all samples, as in
 * the op `random`. */
enum { DL_ATT_Q, DL_ATT_K, DL_ATT_V, DL_ATT_FIXED, DL_ATT_ADDENDS = 2, DL_ATT_DRAWS = 3 };
enum { DL_ATT_Y, DL_ATT_LOG };
/* The same of flash_attention_grad and flash_attention_bias_grad; addends, seed, step and part
 * follow GRAD_DY. */
enum {
    DL_GRAD_Q,
    DL_GRAD_K,
    DL_GRAD_V,
    DL_GRAD_Y,
    DL_GRAD_LOG,
    DL_GRAD_DY,
    DL_GRAD_FIXED,
    DL_GRAD_MOST = DL_GRAD_FIXED + DL_ATT_ADDENDS + DL_ATT_DRAWS
};
enum { DL_GRAD_DQ, DL_GRAD_DK, DL_GRAD_DV };

/* The axes along which attention can be sharded: indices of `first` and `whole`. */
enum { DL_ATT_HEAD, DL_ATT_QUERY, DL_ATT_KEY, DL_ATT_CUTS };

/* Scores are [batch, heads, queries, keys]; q and y [batch, queries, heads * size], k and v [batch,
 * keys, heads * size]; the logarithm of each query's sum of exponentials [batch, heads,
 * queries]. */
typedef struct {
    int64_t batch, queries, keys, heads, size;
    double scale; /* 1 / sqrt(size) */
    double rate;  /* the fraction of the normalised scores that is dropped, 0 to 1 */
    double
        threshold; /* a score is dropped if its random number (a multiple of 2^-24) is below this */
    double kept;   /* the factor of kept scores: 1 / (1 - rate); 0 where all are dropped */
    int number; /* the number of the random op; its element is the score's row-major index among all
                 */
    bool in_parts; /* these are the scores of a part of all samples */
    bool causal;   /* a query sees no later key */
    /* Tensors that are added to the scores: the operand of the first, their number, and the
     * distances in elements between samples, heads and queries; 0: all have the same. */
    int addend, addends;
    struct {
        int64_t sample, head, query;
    } stride[DL_ATT_ADDENDS];
    int seed; /* the operand of the seed, where anything is dropped */
    /* For a shard of a larger attention (attributes `first`, `whole`): the first of its heads,
     * queries and keys, and the number of all. Dropout and the causal mask use these indices. */
    int64_t first[DL_ATT_CUTS], whole[DL_ATT_CUTS];
} dl_attention;

/* Do keys and values travel round a ring of ranks? With the attributes `group`, `ranks` and `rank`
 * they are a rank's shard, and are passed to all ranks of the group; the rank and the ring step
 * determine which shard is present. Only between the passes shard and ring. */
static inline bool dl_attention_goes_round(const dl_node *n) {
    return dl_node_attr(n, DL_ATTR_group);
}
/* Is it one of the three templates? */
static inline bool dl_attention_is(dl_op op) {
    return op == DL_OP_flash_attention || op == DL_OP_flash_attention_grad ||
           op == DL_OP_flash_attention_bias_grad;
}
/* The attention of a valid node of any of the three templates. */
dl_attention dl_attention_of(const dl_node *n);
/* Does a query see no key at all? Its logarithm is then minus infinity, its result zero, and so
 * are all gradients that it contributes to, as in PyTorch. Only addends can hide all keys. */
static inline bool dl_attention_blind(double log) { return log < -DBL_MAX; }
/* The place of the first key's element in an addend. */
static inline int64_t dl_attention_addend_at(const dl_attention *a, int k, int64_t n, int64_t head,
                                             int64_t i) {
    return n * a->stride[k].sample + head * a->stride[k].head + i * a->stride[k].query;
}
/* By how many positions the first query is later than the first key; not below 0 if causal. */
static inline int64_t dl_attention_ahead(const dl_attention *a) {
    return a->first[DL_ATT_QUERY] - a->first[DL_ATT_KEY];
}
/* The number of keys that query i sees. */
static inline int64_t dl_attention_seen(const dl_attention *a, int64_t i) {
    int64_t last = dl_attention_ahead(a) + i + 1;
    return a->causal && last < a->keys ? last : a->keys;
}
/* The index of a score among all scores of the larger attention. */
static inline uint64_t dl_attention_number(const dl_attention *a, int64_t n, int64_t head,
                                           int64_t i, int64_t j) {
    const int64_t *first = a->first, *whole = a->whole;
    uint64_t row =
        ((uint64_t)n * (uint64_t)whole[DL_ATT_HEAD] + (uint64_t)(first[DL_ATT_HEAD] + head)) *
            (uint64_t)whole[DL_ATT_QUERY] +
        (uint64_t)(first[DL_ATT_QUERY] + i);
    return row * (uint64_t)whole[DL_ATT_KEY] + (uint64_t)(first[DL_ATT_KEY] + j);
}
/* A multiply-add counts as 2; two GEMMs of the score matrix forward, five backward, two for the
 * gradient of an addend. Masked scores count, as in PyTorch's counter. */
int64_t dl_attention_flops(const dl_node *n);
#endif
