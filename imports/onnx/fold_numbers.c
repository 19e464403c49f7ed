/* Operands and results of folding. */
#include "imports/onnx/fold.h"

bool dl_ox_fold_hold(dl_ox_folding *f, const dl_ox_shape *s, double *numbers,
                     dl_foreign_class class, dlr_st_dtype dtype) {
    dl_ox_value *v = f->n->out[0];
    if (f->batch == DL_OX_FOR_BATCH) {
        dl_ox_hold(f->r, v, s, class, dtype, numbers);
        return true;
    }
    dl_ox_shape own = dl_ox_fold_shape(f, v);
    if (own.rank != s->rank || memcmp(own.size, s->size, (size_t)s->rank * sizeof *s->size) != 0)
        return false;
    int64_t n = dl_ox_count(s);
    if (f->batch == DL_OX_FOR_OTHER)
        v->other = memcmp(numbers, v->known, (size_t)n * sizeof *numbers) ? numbers : NULL;
    else if (f->batch == DL_OX_FOR_FIRST)
        v->sample = numbers;
    else { /* what the second one has more than the first */
        bool any = false;
        for (int64_t i = 0; i < n; i++) numbers[i] -= v->sample[i], any = any || numbers[i] != 0;
        v->step = any ? numbers : NULL;
    }
    return true;
}

const double *dl_ox_fold_numbers(const dl_ox_folding *f, const dl_ox_value *v) {
    if (f->batch == DL_OX_FOR_OTHER && v->other) return v->other;
    if (f->batch < DL_OX_FOR_FIRST || !v->sample) return v->known;
    if (f->batch == DL_OX_FOR_FIRST || !v->step) return v->sample;
    dl_ox_shape s = dl_ox_fold_shape(f, v);
    int64_t n = dl_ox_count(&s);
    double *second = DL_NEWS(f->r->arena, double, n + 1);
    for (int64_t i = 0; i < n; i++) second[i] = v->sample[i] + v->step[i];
    return second;
}

dl_ox_shape dl_ox_fold_shape(const dl_ox_folding *f, const dl_ox_value *v) {
    dl_ox_shape s = dl_ox_shape_of(v);
    for (int d = 0; d < s.rank && f->batch >= DL_OX_FOR_FIRST; d++)
        if (s.size[d] == DL_OX_BATCH) s.size[d] = 1;
    return s;
}

bool dl_ox_fold_hold_like(dl_ox_folding *f, const dl_ox_shape *s, double *numbers, int like) {
    return dl_ox_fold_hold(f, s, numbers, f->in[like]->t->class, f->in[like]->t->dtype);
}

double *dl_ox_fold_room(dl_ox_folding *f, const dl_ox_shape *s) {
    int64_t n = 1;
    for (int d = 0; d < s->rank; d++)
        if (s->size[d] < 0 || __builtin_mul_overflow(n, s->size[d], &n) || n > DL_OX_FOLD_COUNT)
            return NULL;
    return DL_NEWS(f->r->arena, double, n + 1);
}
