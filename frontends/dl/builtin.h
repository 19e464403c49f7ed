/* The built-in layers and functions; the table of their names is builtins.def. */
#ifndef DL_BUILTIN_H
#define DL_BUILTIN_H
#include "frontends/dl/elab.h"

/* bind.c: binds the arguments of `e` (call of `name`) to f's parameters and applies it. A layer
 * with parameters that gets no tensor becomes a value, which is applied to one later. */
dl_val dl_apply_builtin(dl_elab *E, const dl_builtin *f, const dl_ast *e, const dl_ast *name,
                        const dl_val *piped, const dl_ast_list *args, dl_step *step,
                        const dl_ast *as);
/* Applies such a layer to n tensors: its input, and then those of its arguments that are tensors
 * and that the binding has left out, as first states of a recurrence. */
dl_val dl_apply_builtin_to(const dl_call *bound, dl_span where, int n, const dl_val *tensors,
                           dl_step *step, const dl_ast *as);
/* To how many tensors at most. */
int dl_builtin_tensors(const dl_call *bound);

/* builtin_rules.c: applies the layer or function that the call names; it has no formula. */
dl_val dl_builtin_run(dl_call *c);

/* layers.c */
dl_val dl_layer_conv(dl_call *c);
dl_val dl_layer_conv_transpose(dl_call *c);
dl_val dl_layer_linear(dl_call *c);
dl_val dl_layer_dropout(dl_call *c);
/* The type of parameters: f32, or f64 where the layer's input is f64. */
dl_dtype dl_param_type(dl_val x);
/* norms.c */
dl_val dl_layer_batch_norm(dl_call *c);
dl_val dl_layer_layer_norm(dl_call *c);
dl_val dl_layer_rms_norm(dl_call *c);
dl_val dl_layer_group_norm(dl_call *c);
dl_val dl_layer_instance_norm(dl_call *c);
dl_val dl_layer_prelu(dl_call *c);
/* attention.c */
dl_val dl_layer_attention(dl_call *c);
/* recurrence.c */
dl_val dl_layer_lstm(dl_call *c);
dl_val dl_layer_gru(dl_call *c);
dl_val dl_layer_rnn(dl_call *c);
/* windows.c */
dl_val dl_layer_max_pool(dl_call *c);
dl_val dl_layer_avg_pool(dl_call *c);
dl_val dl_layer_adaptive_avg_pool(dl_call *c);
dl_val dl_layer_upsample(dl_call *c);
dl_val dl_fn_pad(dl_call *c);
dl_val dl_fn_roll(dl_call *c);
dl_val dl_fn_flip(dl_call *c);
/* resize.c */
dl_val dl_layer_adaptive_max_pool(dl_call *c);
/* patches.c */
dl_val dl_fn_pixel_shuffle(dl_call *c);
dl_val dl_fn_pixel_unshuffle(dl_call *c);
dl_val dl_fn_unfold(dl_call *c);
dl_val dl_fn_fold(dl_call *c);
/* sample.c */
dl_val dl_fn_grid_sample(dl_call *c);
/* random.c */
dl_val dl_fn_rand(dl_call *c);
/* The same for x and these axes of it (n < 0: all). */
dl_val dl_call_rand(dl_call *c, dl_val x, int n, const char *const *names);
/* losses.c */
dl_val dl_fn_mse_loss(dl_call *c);
dl_val dl_fn_l1_loss(dl_call *c);
dl_val dl_fn_smooth_l1_loss(dl_call *c);
dl_val dl_fn_huber_loss(dl_call *c);
dl_val dl_fn_relative_l2_loss(dl_call *c);
dl_val dl_fn_bce_with_logits(dl_call *c);
dl_val dl_fn_cross_entropy(dl_call *c);
/* rearrange.c */
dl_val dl_fn_rearrange(dl_call *c);
/* formula.c: the expression c->what->formula, with the axes that the call names. */
dl_ast *dl_formula_of(const dl_call *c);
/* derivatives.c */
dl_val dl_fn_grad(dl_call *c);
/* einsum.c */
dl_val dl_fn_einsum(dl_call *c);
dl_val dl_fn_complex_einsum(dl_call *c);
/* fourier.c */
dl_val dl_fn_rfft(dl_call *c);
dl_val dl_fn_irfft(dl_call *c);
dl_val dl_fn_fft(dl_call *c);
dl_val dl_fn_ifft(dl_call *c);
/* scan.c */
dl_val dl_fn_cumulative(dl_call *c); /* cumsum and cumprod */
dl_val dl_fn_linear_scan(dl_call *c);
/* scan_cell.c */
dl_val dl_fn_scan(dl_call *c);
/* segments.c */
dl_val dl_fn_segment_sum(dl_call *c);
dl_val dl_fn_segment_mean(dl_call *c);
dl_val dl_fn_segment_extreme(dl_call *c); /* segment_max and segment_min */
/* literals.c */
dl_val dl_count_along(dl_elab *E, dl_span where, dl_axis axis, dl_dtype dtype); /* 0, 1, 2, ... */
/* A tensor of row-major numbers that are known when compiling. Poison: reported. */
dl_val dl_tensor_table(dl_elab *E, dl_span where, dl_type t, const double *numbers);
dl_val dl_fn_one_hot(dl_call *c);
dl_val dl_fn_stop_gradient(dl_call *c);
dl_val dl_fn_expand(dl_call *c);
dl_val dl_fn_unsqueeze(dl_call *c);
dl_val dl_fn_linspace(dl_call *c);
/* functions.c */
/* The root of the sum of squares over axes (n < 0: all); its gradient at the zero vector is 0. */
dl_val dl_call_norm(dl_call *c, dl_val x, int n, const char *const *over);
dl_val dl_fn_elementwise(dl_call *c); /* c->what->op on one operand */
/* further_functions.c */
dl_val dl_fn_gelu(dl_call *c);
/* c->what->op with its one float attribute as second argument */
dl_val dl_fn_with_number(dl_call *c);
dl_val dl_fn_softplus(dl_call *c);
dl_val dl_fn_clamp(dl_call *c);
dl_val dl_layer_embedding(dl_call *c);
dl_val dl_fn_gather(dl_call *c);
dl_val dl_fn_any(dl_call *c); /* any and all */
dl_val dl_fn_argsort(dl_call *c);
dl_val dl_fn_top_k(dl_call *c);
dl_val dl_fn_square(dl_call *c);
dl_val dl_fn_atan2(dl_call *c);
dl_val dl_fn_fmod(dl_call *c);
dl_val dl_fn_softmax(dl_call *c);
dl_val dl_fn_where(dl_call *c);
dl_val dl_fn_reduce(dl_call *c);  /* c->what->op over axes */
dl_val dl_fn_extreme(dl_call *c); /* max and min: of two, or over axes */
dl_val dl_fn_norm(dl_call *c);
dl_val dl_fn_var(dl_call *c);
dl_val dl_fn_std(dl_call *c);
dl_val dl_fn_sum_squares(dl_call *c);
dl_val dl_fn_cat(dl_call *c);
dl_val dl_fn_argmax(dl_call *c);
dl_val dl_fn_in_top_k(dl_call *c);
dl_val dl_fn_range(dl_call *c);
dl_val dl_fn_len(dl_call *c);
dl_val dl_fn_int(dl_call *c);
dl_val dl_fn_fail(dl_call *c);

/* ---- call_parts.c: reading arguments ---- */

/* Entry k of argument i: an item of a list with one per spatial axis, or one value for all of them.
 * Poison: reported. */
dl_val dl_call_entry(dl_call *c, int i, int spatial, int k);
/* Reads whole numbers, one per spatial axis, from argument i. False: reported. */
bool dl_call_window(dl_call *c, int i, int spatial, int64_t least, int64_t out[3]);
/* Checks that the operand is image-like, [N, C, spatial...]; dl_call_float: is of floats, or
 * converts it. False: reported. */
bool dl_call_image(dl_call *c, const dl_type *t);
bool dl_call_float(dl_call *c, dl_val *x);
/* Reads the share that dropout drops, argument i: from 0 to less than 1. False: reported. */
bool dl_call_rate(dl_call *c, int i, double *rate);
/* Reads the padding of argument i: numbers, `valid`, or `same`. `same` gives ceil(size / stride)
 * outputs, with the odd zero at the end, as in Keras and, at stride 1, PyTorch. */
bool dl_call_padding(dl_call *c, int i, const dl_type *t, const int64_t kernel[3],
                     const int64_t stride[3], const int64_t dilation[3], int64_t lo[3],
                     int64_t hi[3]);
/* Builds an elementwise op of tensors and numbers. */
dl_val dl_call_elem(dl_call *c, dl_op op, dl_val a, dl_val b);
/* The axes that `over` names: a name or a list of names. False: reported. */
bool dl_eval_axes(dl_elab *E, const dl_ast *e, int *n, const char *names[DL_MAX_RANK]);
/* The axes of argument i; *n is -1 when it was not given: all axes. False: reported. */
bool dl_call_axes(dl_call *c, int i, int *n, const char *names[DL_MAX_RANK]);
/* The same, and checks that x has them. */
bool dl_call_axes_of(dl_call *c, int i, dl_val x, int *n, const char *names[DL_MAX_RANK]);
#endif
