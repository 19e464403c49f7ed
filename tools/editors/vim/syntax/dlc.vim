" Vim syntax file: models of dlc. Written by scripts/editor-syntax.
if exists("b:current_syntax")
  finish
endif
syn keyword dlFunction abs acos adaptive_avg_pool adaptive_max_pool all any argmax argsort asin atan
syn keyword dlFunction atan2 atanh attention avg_pool batch_norm bce_with_logits cat ceil celu clamp
syn keyword dlFunction complex_einsum conv conv_transpose cos cosh cosine_similarity cross_entropy crps_gaussian cumprod cumsum
syn keyword dlFunction dice_loss drop_path dropout einsum elu embedding erf exp exp2 expand
syn keyword dlFunction expm1 fail fft flip floor fmod focal_loss fold frac gather
syn keyword dlFunction gaussian_nll_loss geglu gelu glu grad grid_sample group_norm gru hardshrink hardsigmoid
syn keyword dlFunction hardswish hardtanh huber_loss ifft in_top_k instance_norm int irfft isfinite isnan
syn keyword dlFunction kl_div l1_loss layer_norm leaky_relu len lerp linear linear_scan linspace log
syn keyword dlFunction log10 log1p log2 log_softmax logsigmoid logsumexp lstm max max_pool mean
syn keyword dlFunction median min mish mse_loss nan_to_num norm normalize one_hot pad pixel_shuffle
syn keyword dlFunction pixel_unshuffle prelu prod quantile rand randint randn range rearrange reciprocal
syn keyword dlFunction reduced relative_l2_loss relu relu6 rfft rms_norm rnn roll round rsqrt
syn keyword dlFunction scan segment_max segment_mean segment_min segment_sum selu sigmoid sign silu sin
syn keyword dlFunction sinc sinh smooth_l1_loss softmax softmin softplus softshrink softsign sort sqrt
syn keyword dlFunction square std stop_gradient sum sum_squares swiglu tan tanh tanhshrink timestep_embedding
syn keyword dlFunction top_k trunc tversky_loss unfold unsqueeze upsample var where
syn keyword dlKeyword as elif else for if in model module pass return
syn keyword dlOperator and not or
syn keyword dlValue False None True false none true
syn keyword dlType bf16 bool f16 f32 f64 i32 i64
syn match dlOpener "\(^\s*\|: \)\@<=\(buffer\|figure\|init\|input\|metric\|optimize\|output\|param\|target\)\>\(\s*[=.(\[]\)\@!"
syn match dlNumber "\<\d\+\.\?\d*\([eE][+-]\?\d\+\)\?\>"
syn match dlPipe "|>"
syn match dlLabel "@\([A-Za-z0-9_.]\|{[^}]*}\)\+"
syn region dlString start=+"+ skip=+\\.+ end=+"+ oneline
syn region dlString start=+'+ skip=+\\.+ end=+'+ oneline
syn match dlComment "#.*$"
hi def link dlFunction Function
hi def link dlKeyword Keyword
hi def link dlOperator Operator
hi def link dlValue Constant
hi def link dlType Type
hi def link dlOpener Statement
hi def link dlNumber Number
hi def link dlPipe Operator
hi def link dlLabel Identifier
hi def link dlString String
hi def link dlComment Comment
let b:current_syntax = "dlc"
