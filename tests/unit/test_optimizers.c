/* Every optimiser and every schedule against PyTorch in f64: the learning rate, the parameters and
 * the norms of each step, as the pass builds them and behind the whole pipeline. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/interp/interp.h"
#include "ir/text/text.h"
#include "passes/pass.h"
#include "tests/check.h"

enum { STEPS = 24, MOST_SETTINGS = 14, NUMBERS = 9 };
/* a step's line: rate, four weights, two biases, the norms of all gradients before clipping and of
 * all weights behind the step */

static const char model[] = "graph @train {\n"
                            "  param $w = %0 : f64[K=2, J=2] init zero\n"
                            "  param $b = %1 : f64[J=2] init zero\n"
                            "  input $x = %2 : f64[K=2]\n"
                            "  %3 = mul $w, $x : f64[K=2, J=2]\n"
                            "  %4 = add %3, $b : f64[K=2, J=2]\n"
                            "  %5 = tanh %4 : f64[K=2, J=2]\n"
                            "  %6 = sum %5 {over=[K, J]} : f64[]\n"
                            "  loss \"loss\" = %6\n"
                            "}\n";
static const double w0[] = {0.5, -0.25, 0.125, 1.0}, b0[] = {0.25, -0.5}, x0[] = {0.3, -1.2};

/* `make`: the optimiser in PyTorch, of parameters p; `schedule`: its rate's, of optimiser o, which
 * steps behind every `every`-th step; `clip`: the largest norm, 0 for none. */
typedef struct {
    const char *name;
    dl_step_options step_options;
    const char *make, *schedule;
    int every;
    double clip;
    struct {
        const char *name;
        double value;
    } set[MOST_SETTINGS];
} optimizer_case;

#define CONSTANT "ConstantLR(o, 1)", 1
#define FIXED    .schedule = DL_SCHEDULE_constant
#define DECAYS   .decay = true, .decay_vectors = true
#define RATE                                                                                       \
    { "optimizer.lr.init", 0.0371 }
#define PHASE(kind, i)  (uint64_t)(DL_RATE_PHASE_##kind + 1) << 4 * i
#define HALF(at, total) "0.5 * (1 + math.cos(math.pi * (" at ") / " total "))"
static const optimizer_case cases[] = {
    {"adam", {.optimizer = DL_OPT_adam, FIXED}, "Adam(p, lr=0.0371)", CONSTANT, 0, {RATE}},
    {"adam, betas, eps, decay",
     {.optimizer = DL_OPT_adam, FIXED, DECAYS},
     "Adam(p, lr=0.0371, betas=(0.83, 0.957), eps=3e-4, weight_decay=0.0123)",
     CONSTANT,
     0,
     {RATE,
      {"optimizer.beta1", 0.83},
      {"optimizer.beta2", 0.957},
      {"optimizer.eps", 3e-4},
      {"optimizer.weight_decay", 0.0123}}},
    {"adam, no memory", /* the signs of the gradients, nearly */
     {.optimizer = DL_OPT_adam, FIXED},
     "Adam(p, lr=0.0371, betas=(0, 0), eps=1e-2)",
     CONSTANT,
     0,
     {RATE, {"optimizer.beta1", 0}, {"optimizer.beta2", 0}, {"optimizer.eps", 1e-2}}},
    {"adam, no decay of vectors",
     {.optimizer = DL_OPT_adam, FIXED, .decay = true},
     "Adam([{'params': p[:1], 'weight_decay': 0.31}, {'params': p[1:]}], lr=0.0371)",
     CONSTANT,
     0,
     {RATE, {"optimizer.weight_decay", 0.31}}},
    {"adamw",
     {.optimizer = DL_OPT_adamw, FIXED, DECAYS},
     "AdamW(p, lr=0.0371, weight_decay=0.13)",
     CONSTANT,
     0,
     {RATE, {"optimizer.weight_decay", 0.13}}},
    {"adamw, betas, eps",
     {.optimizer = DL_OPT_adamw, FIXED, DECAYS},
     "AdamW(p, lr=0.0371, betas=(0.71, 0.9), eps=7e-3, weight_decay=0.29)",
     CONSTANT,
     0,
     {RATE,
      {"optimizer.beta1", 0.71},
      {"optimizer.beta2", 0.9},
      {"optimizer.eps", 7e-3},
      {"optimizer.weight_decay", 0.29}}},
    {"adamw, no decay of vectors",
     {.optimizer = DL_OPT_adamw, FIXED, .decay = true},
     "AdamW([{'params': p[:1], 'weight_decay': 0.13}, {'params': p[1:], 'weight_decay': 0}], "
     "lr=0.0371)",
     CONSTANT,
     0,
     {RATE, {"optimizer.weight_decay", 0.13}}},
    {"sgd", {.optimizer = DL_OPT_sgd, FIXED}, "SGD(p, lr=0.0371)", CONSTANT, 0, {RATE}},
    {"sgd, decay",
     {.optimizer = DL_OPT_sgd, FIXED, DECAYS},
     "SGD(p, lr=0.0371, weight_decay=0.17)",
     CONSTANT,
     0,
     {RATE, {"optimizer.weight_decay", 0.17}}},
    {"sgd, momentum, decay",
     {.optimizer = DL_OPT_sgd, FIXED, .momentum = true, DECAYS},
     "SGD(p, lr=0.0371, momentum=0.73, weight_decay=0.17)",
     CONSTANT,
     0,
     {RATE, {"optimizer.momentum", 0.73}, {"optimizer.weight_decay", 0.17}}},
    {"sgd, nesterov",
     {.optimizer = DL_OPT_sgd, FIXED, .momentum = true, .nesterov = true},
     "SGD(p, lr=0.0371, momentum=0.9, nesterov=True)",
     CONSTANT,
     0,
     {RATE}},
    {"sgd, nesterov, no decay of vectors",
     {.optimizer = DL_OPT_sgd, FIXED, .momentum = true, .nesterov = true, .decay = true},
     "SGD([{'params': p[:1], 'weight_decay': 0.17}, {'params': p[1:]}], lr=0.0371, momentum=0.87, "
     "nesterov=True)",
     CONSTANT,
     0,
     {RATE, {"optimizer.momentum", 0.87}, {"optimizer.weight_decay", 0.17}}},
    {"rmsprop", {.optimizer = DL_OPT_rmsprop, FIXED}, "RMSprop(p, lr=0.0371)", CONSTANT, 0, {RATE}},
    {"rmsprop, alpha, eps, decay",
     {.optimizer = DL_OPT_rmsprop, FIXED, DECAYS},
     "RMSprop(p, lr=0.0371, alpha=0.83, eps=3e-3, weight_decay=0.17)",
     CONSTANT,
     0,
     {RATE, {"optimizer.alpha", 0.83}, {"optimizer.eps", 3e-3}, {"optimizer.weight_decay", 0.17}}},
    {"rmsprop, momentum",
     {.optimizer = DL_OPT_rmsprop, FIXED, .momentum = true},
     "RMSprop(p, lr=0.0037, momentum=0.73)",
     CONSTANT,
     0,
     {{"optimizer.lr.init", 0.0037}, {"optimizer.momentum", 0.73}}},
    {"rmsprop, centered, momentum, decay",
     {.optimizer = DL_OPT_rmsprop, FIXED, .momentum = true, .centered = true, DECAYS},
     "RMSprop(p, lr=0.0371, alpha=0.9, eps=1e-2, momentum=0.57, centered=True, weight_decay=0.017)",
     CONSTANT,
     0,
     {RATE,
      {"optimizer.alpha", 0.9},
      {"optimizer.eps", 1e-2},
      {"optimizer.momentum", 0.57},
      {"optimizer.weight_decay", 0.017}}},
    {"rmsprop, Nesterov's is sgd's",
     {.optimizer = DL_OPT_rmsprop, FIXED, .momentum = true, .nesterov = true},
     "RMSprop(p, lr=0.0371)",
     CONSTANT,
     0,
     {RATE, {"optimizer.momentum", 0}}},
    {"adagrad", {.optimizer = DL_OPT_adagrad, FIXED}, "Adagrad(p, lr=0.0371)", CONSTANT, 0, {RATE}},
    {"adagrad, all options",
     {.optimizer = DL_OPT_adagrad, FIXED, .accumulator = 0.13, DECAYS},
     "Adagrad(p, lr=0.0371, lr_decay=0.31, weight_decay=0.17, initial_accumulator_value=0.13, "
     "eps=1e-3)",
     CONSTANT,
     0,
     {RATE,
      {"optimizer.lr_decay", 0.31},
      {"optimizer.weight_decay", 0.17},
      {"optimizer.eps", 1e-3}}},
    {"adagrad, no decay of vectors",
     {.optimizer = DL_OPT_adagrad, FIXED, .decay = true},
     "Adagrad([{'params': p[:1], 'weight_decay': 0.17}, {'params': p[1:]}], lr=0.0371)",
     CONSTANT,
     0,
     {RATE, {"optimizer.weight_decay", 0.17}}},
    {"adadelta",
     {.optimizer = DL_OPT_adadelta, FIXED},
     "Adadelta(p, lr=0.0371)",
     CONSTANT,
     0,
     {RATE}},
    {"adadelta, rho, eps, decay",
     {.optimizer = DL_OPT_adadelta, FIXED, DECAYS},
     "Adadelta(p, lr=0.0371, rho=0.73, eps=1e-3, weight_decay=0.17)",
     CONSTANT,
     0,
     {RATE, {"optimizer.rho", 0.73}, {"optimizer.eps", 1e-3}, {"optimizer.weight_decay", 0.17}}},
    {"adamax", {.optimizer = DL_OPT_adamax, FIXED}, "Adamax(p, lr=0.0371)", CONSTANT, 0, {RATE}},
    {"adamax, betas, eps, decay",
     {.optimizer = DL_OPT_adamax, FIXED, DECAYS},
     "Adamax(p, lr=0.0371, betas=(0.83, 0.57), eps=1e-2, weight_decay=0.17)",
     CONSTANT,
     0,
     {RATE,
      {"optimizer.beta1", 0.83},
      {"optimizer.beta2", 0.57},
      {"optimizer.eps", 1e-2},
      {"optimizer.weight_decay", 0.17}}},
    {"nadam", /* 1.13 has another rule without foreach (passes/optim/optimizers.c) */
     {.optimizer = DL_OPT_nadam, FIXED},
     "NAdam(p, lr=0.0371, foreach=True)",
     CONSTANT,
     0,
     {RATE}},
    {"nadam, all options",
     {.optimizer = DL_OPT_nadam, FIXED, DECAYS},
     "NAdam(p, lr=0.0371, betas=(0.83, 0.957), eps=3e-4, momentum_decay=0.31, weight_decay=0.17, "
     "foreach=True)",
     CONSTANT,
     0,
     {RATE,
      {"optimizer.beta1", 0.83},
      {"optimizer.beta2", 0.957},
      {"optimizer.eps", 3e-4},
      {"optimizer.momentum_decay", 0.31},
      {"optimizer.weight_decay", 0.17}}},
    {"radam", /* from step 6 on with the root */
     {.optimizer = DL_OPT_radam, FIXED},
     "RAdam(p, lr=0.0371)",
     CONSTANT,
     0,
     {RATE}},
    {"radam, betas, eps, decay",
     {.optimizer = DL_OPT_radam, FIXED, DECAYS},
     "RAdam(p, lr=0.0371, betas=(0.83, 0.957), eps=3e-4, weight_decay=0.17)",
     CONSTANT,
     0,
     {RATE,
      {"optimizer.beta1", 0.83},
      {"optimizer.beta2", 0.957},
      {"optimizer.eps", 3e-4},
      {"optimizer.weight_decay", 0.17}}},
    {"radam, always few",
     {.optimizer = DL_OPT_radam, FIXED},
     "RAdam(p, lr=0.0371, betas=(0.9, 0.6))",
     CONSTANT,
     0,
     {RATE, {"optimizer.beta2", 0.6}}},
    {"adam, amsgrad, decay",
     {.optimizer = DL_OPT_adam, FIXED, DECAYS, .amsgrad = true},
     "Adam(p, lr=0.0371, betas=(0.83, 0.5), weight_decay=0.17, amsgrad=True)",
     CONSTANT,
     0,
     {RATE, {"optimizer.beta1", 0.83}, {"optimizer.beta2", 0.5}, {"optimizer.weight_decay", 0.17}}},
    {"sgd, maximize",
     {.optimizer = DL_OPT_sgd, FIXED, DECAYS, .momentum = true, .maximize = true},
     "SGD(p, lr=0.0371, momentum=0.73, weight_decay=0.17, maximize=True)",
     CONSTANT,
     0,
     {RATE, {"optimizer.momentum", 0.73}, {"optimizer.weight_decay", 0.17}}},
    {"sgd, dampening",
     {.optimizer = DL_OPT_sgd, FIXED, .momentum = true, .dampens = true},
     "SGD(p, lr=0.0371, momentum=0.73, dampening=0.3)",
     CONSTANT,
     0,
     {RATE, {"optimizer.momentum", 0.73}, {"optimizer.dampening", 0.3}}},
    {"lion",
     {.optimizer = DL_OPT_lion, FIXED, DECAYS},
     "Lion(p, lr=0.0371, betas=(0.83, 0.957), weight_decay=0.17)",
     CONSTANT,
     0,
     {RATE,
      {"optimizer.beta1", 0.83},
      {"optimizer.beta2", 0.957},
      {"optimizer.weight_decay", 0.17}}},
    {"lamb",
     {.optimizer = DL_OPT_lamb, FIXED, DECAYS},
     "LAMB(p, lr=0.0371, betas=(0.83, 0.957), eps=3e-4, weight_decay=0.17)",
     CONSTANT,
     0,
     {RATE,
      {"optimizer.beta1", 0.83},
      {"optimizer.beta2", 0.957},
      {"optimizer.eps", 3e-4},
      {"optimizer.weight_decay", 0.17}}},
    {"lars",
     {.optimizer = DL_OPT_lars, FIXED, DECAYS, .momentum = true},
     "LARS(p, lr=0.0371, trust=0.1, weight_decay=0.17)",
     CONSTANT,
     0,
     {RATE, {"optimizer.trust", 0.1}, {"optimizer.weight_decay", 0.17}}},
    {"adafactor",
     {.optimizer = DL_OPT_adafactor, FIXED, DECAYS},
     "Adafactor(p, lr=0.0371, weight_decay=0.17, d=0.9)",
     CONSTANT,
     0,
     {RATE, {"optimizer.d", 0.9}, {"optimizer.weight_decay", 0.17}}},
    {"muon",
     {.optimizer = DL_OPT_muon, FIXED, DECAYS, .momentum = true, .nesterov = true},
     "Muon(p, lr=0.0371, weight_decay=0.17)",
     CONSTANT,
     0,
     {RATE, {"optimizer.weight_decay", 0.17}}},
    {"muon without Nesterov's momentum",
     {.optimizer = DL_OPT_muon, FIXED, .momentum = true},
     "Muon(p, lr=0.0371, momentum=0.7, nesterov=False)",
     CONSTANT,
     0,
     {RATE, {"optimizer.momentum", 0.7}}},
    {"rprop",
     {.optimizer = DL_OPT_rprop, FIXED},
     "Rprop(p, lr=0.0371, etas=(0.4, 1.3), step_sizes=(0.01, 0.5))",
     CONSTANT,
     0,
     {RATE,
      {"optimizer.etaminus", 0.4},
      {"optimizer.etaplus", 1.3},
      {"optimizer.step_min", 0.01},
      {"optimizer.step_max", 0.5}}},
    {"asgd",
     {.optimizer = DL_OPT_asgd, FIXED, DECAYS},
     "ASGD(p, lr=0.0371, lambd=0.05, alpha=0.6, t0=7, weight_decay=0.17)",
     CONSTANT,
     0,
     {RATE,
      {"optimizer.lambd", 0.05},
      {"optimizer.alpha", 0.6},
      {"optimizer.t0", 7},
      {"optimizer.weight_decay", 0.17}}},
    {"clipped",
     {.optimizer = DL_OPT_sgd, FIXED, .clip = true},
     "SGD(p, lr=0.0371)",
     CONSTANT,
     0.37,
     {RATE, {"optimizer.max_norm", 0.37}}},
    {"adamw, clipped, decay is not", /* from some step on: the gradient falls below */
     {.optimizer = DL_OPT_adamw, FIXED, .clip = true, DECAYS},
     "AdamW(p, lr=0.0371, weight_decay=0.29)",
     CONSTANT,
     1.1,
     {RATE, {"optimizer.max_norm", 1.1}, {"optimizer.weight_decay", 0.29}}},
    {"clipped by nothing",
     {.optimizer = DL_OPT_sgd, FIXED, .clip = true},
     "SGD(p, lr=0.0371)",
     CONSTANT,
     100,
     {RATE, {"optimizer.max_norm", 100}}},
    {"warmup_cosine",
     {.schedule = DL_SCHEDULE_warmup_cosine},
     "Adam(p, lr=0.113)",
     "LambdaLR(o, lambda i: (i + 1) / 7 if i + 1 < 7 else (0.0071 + 0.1059 * " HALF(
         "i + 1 - 7", "13") ") / 0.113)",
     1,
     0,
     {{"optimizer.lr.init", 0.113},
      {"optimizer.lr.end", 0.0071},
      {"optimizer.lr.warmup", 7},
      {"optimizer.lr.total", 13}}},
    {"warmup_cosine, by PyTorch's own parts", /* step 9 of both is the first of the cosine: the rate
                                                 itself */
     {.schedule = DL_SCHEDULE_warmup_cosine},
     "Adam(p, lr=0.113)",
     "SequentialLR(o, [LinearLR(o, 1 / 9, total_iters=8), CosineAnnealingLR(o, 16, "
     "eta_min=0.0071)], [8])",
     1,
     0,
     {{"optimizer.lr.init", 0.113},
      {"optimizer.lr.end", 0.0071},
      {"optimizer.lr.warmup", 9},
      {"optimizer.lr.total", 16}}},
    {"warmup_cosine without warm-up", /* one step ahead of PyTorch's */
     {.schedule = DL_SCHEDULE_warmup_cosine},
     "Adam(p, lr=2.3e-2)",
     "ahead(CosineAnnealingLR(o, 31, eta_min=1.7e-4))",
     1,
     0,
     {{"optimizer.lr.init", 2.3e-2}, {"optimizer.lr.end", 1.7e-4}, {"optimizer.lr.total", 31}}},
    {"cosine",
     {.schedule = DL_SCHEDULE_cosine},
     "Adam(p, lr=0.113)",
     "LambdaLR(o, lambda i: min((i + 1) / 9, " HALF("i", "29") "))",
     1,
     0,
     {{"optimizer.lr.init", 0.113}, {"optimizer.lr.warmup", 9}, {"optimizer.lr.total", 29}}},
    {"cosine without warm-up",
     {.schedule = DL_SCHEDULE_cosine},
     "Adam(p, lr=0.113)",
     "CosineAnnealingLR(o, 23)",
     1,
     0,
     {{"optimizer.lr.init", 0.113}, {"optimizer.lr.total", 23}}},
    {"cosine_epochs", /* beyond its end, too, where it rises again */
     {.schedule = DL_SCHEDULE_cosine_epochs},
     "Adam(p, lr=0.113)",
     "CosineAnnealingLR(o, 7, eta_min=0.0017)",
     2,
     0,
     {{"optimizer.lr.init", 0.113},
      {"optimizer.lr.end", 0.0017},
      {"optimizer.lr.total", 7},
      {"optimizer.lr.steps", 2}}},
    {"cosine_epochs, warm-up",
     {.schedule = DL_SCHEDULE_cosine_epochs},
     "Adam(p, lr=0.113)",
     "LambdaLR(o, lambda i: min((i + 1) / 11, 1) * " HALF("i // 3", "7") ")",
     1,
     0,
     {{"optimizer.lr.init", 0.113},
      {"optimizer.lr.total", 7},
      {"optimizer.lr.steps", 3},
      {"optimizer.lr.warmup", 11}}},
    {"piecewise",
     {.schedule = DL_SCHEDULE_piecewise, .ranges = 2},
     "Adam(p, lr=0.113)",
     "MultiStepLR(o, [2, 5], gamma=0.3)",
     3,
     0,
     {{"optimizer.lr.init", 0.113},
      {"optimizer.lr.steps", 3},
      {"optimizer.lr.range.0.start", 2},
      {"optimizer.lr.range.0.end", 5},
      {"optimizer.lr.range.0.factor", 0.3},
      {"optimizer.lr.range.1.start", 5},
      {"optimizer.lr.range.1.end", INFINITY},
      {"optimizer.lr.range.1.factor", 0.09}}},
    {"piecewise, warm-up",
     {.schedule = DL_SCHEDULE_piecewise, .ranges = 2},
     "Adam(p, lr=0.113)",
     "LambdaLR(o, lambda s: min(0.23 + 0.77 * (s + 1) / 11, 1) * (0.09 if s >= 15 else 0.3 if s >= "
     "6 else "
     "1))",
     1,
     0,
     {{"optimizer.lr.init", 0.113},
      {"optimizer.lr.steps", 3},
      {"optimizer.lr.warmup", 11},
      {"optimizer.lr.warmup.from", 0.23},
      {"optimizer.lr.range.0.start", 2},
      {"optimizer.lr.range.0.end", 5},
      {"optimizer.lr.range.0.factor", 0.3},
      {"optimizer.lr.range.1.start", 5},
      {"optimizer.lr.range.1.end", 1e9},
      {"optimizer.lr.range.1.factor", 0.09}}},
    {"piecewise, ranges that overlap and end",
     {.schedule = DL_SCHEDULE_piecewise, .ranges = 2},
     "Adam(p, lr=0.113)",
     "LambdaLR(o, lambda e: 0.7 if e == 3 else 0.13 if e >= 1 else 1)",
     3,
     0,
     {{"optimizer.lr.init", 0.113},
      {"optimizer.lr.steps", 3},
      {"optimizer.lr.range.0.start", 1},
      {"optimizer.lr.range.0.end", 6},
      {"optimizer.lr.range.0.factor", 0.13},
      {"optimizer.lr.range.1.start", 3},
      {"optimizer.lr.range.1.end", 4},
      {"optimizer.lr.range.1.factor", 0.7}}},
    {"phases: StepLR",
     {.schedule = DL_SCHEDULE_phases, .phases = PHASE(steps, 0)},
     "Adam(p, lr=0.113)",
     "StepLR(o, 3, gamma=0.7)",
     2,
     0,
     {{"optimizer.lr.unit", 2},
      {"optimizer.lr.phase.0.from", 0.113},
      {"optimizer.lr.phase.0.length", 3},
      {"optimizer.lr.phase.0.by", 0.7}}},
    {"phases: PolynomialLR",
     {.schedule = DL_SCHEDULE_phases, .phases = PHASE(power, 0)},
     "Adam(p, lr=0.113)",
     "LambdaLR(o, lambda i: (1 - min(i, 17) / 17)**2.5)",
     1,
     0,
     {{"optimizer.lr.phase.0.from", 0.113},
      {"optimizer.lr.phase.0.to", 0},
      {"optimizer.lr.phase.0.length", 17},
      {"optimizer.lr.phase.0.by", 2.5}}},
    {"phases: LinearLR, then CosineAnnealingLR",
     {.schedule = DL_SCHEDULE_phases, .phases = PHASE(power, 0) | PHASE(cosine, 1)},
     "Adam(p, lr=0.113)",
     "SequentialLR(o, [LinearLR(o, 0.2, 1, total_iters=7), CosineAnnealingLR(o, 17, "
     "eta_min=0.003)], [7])",
     1,
     0,
     {{"optimizer.lr.phase.0.from", 0.113 * 0.2},
      {"optimizer.lr.phase.0.to", 0.113},
      {"optimizer.lr.phase.0.length", 7},
      {"optimizer.lr.phase.0.by", 1},
      {"optimizer.lr.phase.1.start", 7},
      {"optimizer.lr.phase.1.from", 0.113},
      {"optimizer.lr.phase.1.to", 0.003},
      {"optimizer.lr.phase.1.length", 17}}},
    {"phases: OneCycleLR",
     {.schedule = DL_SCHEDULE_phases, .phases = PHASE(cosine, 0) | PHASE(cosine, 1)},
     "Adam(p, lr=0.113)",
     "OneCycleLR(o, 0.113, total_steps=25, cycle_momentum=False)",
     1,
     0,
     {{"optimizer.lr.phase.0.from", 0.113 / 25},
      {"optimizer.lr.phase.0.to", 0.113},
      {"optimizer.lr.phase.0.length", 6.5},
      {"optimizer.lr.phase.1.start", 6.5},
      {"optimizer.lr.phase.1.from", 0.113},
      {"optimizer.lr.phase.1.to", 0.113 / 25e4},
      {"optimizer.lr.phase.1.length", 17.5}}},
    {"phases: warm restarts",
     {.schedule = DL_SCHEDULE_phases, .phases = PHASE(restarts, 0)},
     "Adam(p, lr=0.113)",
     "CosineAnnealingWarmRestarts(o, 3, T_mult=2, eta_min=0.003)",
     1,
     0,
     {{"optimizer.lr.phase.0.from", 0.113},
      {"optimizer.lr.phase.0.to", 0.003},
      {"optimizer.lr.phase.0.length", 3},
      {"optimizer.lr.phase.0.by", 2}}},
    {"phases: warm restarts of one length",
     {.schedule = DL_SCHEDULE_phases, .phases = PHASE(restarts, 0)},
     "Adam(p, lr=0.113)",
     "CosineAnnealingWarmRestarts(o, 5)",
     1,
     0,
     {{"optimizer.lr.phase.0.from", 0.113},
      {"optimizer.lr.phase.0.to", 0},
      {"optimizer.lr.phase.0.length", 5},
      {"optimizer.lr.phase.0.by", 1}}},
    {"phases: CyclicLR",
     {.schedule = DL_SCHEDULE_phases, .phases = PHASE(cycle, 0)},
     "Adam(p, lr=0.113)",
     "CyclicLR(o, 0.013, 0.113, step_size_up=4, step_size_down=3, mode='triangular2', "
     "cycle_momentum=False)",
     1,
     0,
     {{"optimizer.lr.phase.0.from", 0.013},
      {"optimizer.lr.phase.0.to", 0.113},
      {"optimizer.lr.phase.0.length", 4},
      {"optimizer.lr.phase.0.down", 3},
      {"optimizer.lr.phase.0.fade", 0.5}}},
    {"phases: CyclicLR, exp_range",
     {.schedule = DL_SCHEDULE_phases, .phases = PHASE(cycle, 0)},
     "Adam(p, lr=0.113)",
     "CyclicLR(o, 0.013, 0.113, step_size_up=5, mode='exp_range', gamma=0.93, "
     "cycle_momentum=False)",
     1,
     0,
     {{"optimizer.lr.phase.0.from", 0.013},
      {"optimizer.lr.phase.0.to", 0.113},
      {"optimizer.lr.phase.0.length", 5},
      {"optimizer.lr.phase.0.down", 5},
      {"optimizer.lr.phase.0.by", 0.93}}},
    {"constant, warm-up",
     {FIXED},
     "Adam(p, lr=0.113)",
     "LinearLR(o, start_factor=1 / 13, total_iters=12)",
     1,
     0,
     {{"optimizer.lr.init", 0.113}, {"optimizer.lr.warmup", 13}}},
    {"constant, lowered",
     {FIXED},
     "Adam(p, lr=0.113)",
     "ConstantLR(o, 0.2, total_iters=99)",
     1,
     0,
     {{"optimizer.lr.init", 0.113}, {"optimizer.lr.scale", 0.2}}},
};
enum { NCASES = (int)(sizeof cases / sizeof *cases) };

static const char oracle_head[] =
    "import math\n"
    "try: import torch\n"
    "except ImportError: print('none'); raise SystemExit\n"
    "from torch.optim import *\n"
    "from torch.optim.lr_scheduler import *\n"
    "import sys\n"
    "sys.path.insert(0, 'tests/oracle')\n"
    "from paper_optimizers import *\n"
    "torch.set_default_dtype(torch.float64)\n" /* of what NAdam keeps, too */
    "def ahead(schedule):\n"
    "    schedule.step()\n"
    "    return schedule\n"
    "def run(make, schedule, every, clip):\n"
    "    w = torch.tensor([[0.5, -0.25], [0.125, 1.0]], dtype=torch.float64, requires_grad=True)\n"
    "    b = torch.tensor([0.25, -0.5], dtype=torch.float64, requires_grad=True)\n"
    "    x = torch.tensor([[0.3], [-1.2]], dtype=torch.float64)\n"
    "    opt = make([w, b])\n"
    "    rates = schedule(opt)\n"
    "    for it in range(1, 25):\n"
    "        rate = opt.param_groups[0]['lr']\n"
    "        opt.zero_grad()\n"
    "        torch.tanh(w * x + b).sum().backward()\n"
    "        norm = torch.nn.utils.clip_grad_norm_([w, b], clip or math.inf)\n"
    "        opt.step()\n"
    "        if it % every == 0: rates.step()\n"
    "        p = torch.cat([w.flatten(), b])\n"
    "        print(repr(float(rate)), *map(repr, p.tolist() + [norm.item(), p.norm().item()]))\n";

/* The oracle's numbers for all cases, or false without PyTorch. */
static bool ask_oracle(double want[NCASES][STEPS][NUMBERS]) {
    char path[] = "/tmp/dl_optimizers_XXXXXX";
    int fd = mkstemp(path);
    FILE *script = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!script) return false;
    fputs(oracle_head, script);
    for (int i = 0; i < NCASES; i++)
        fprintf(script, "run(lambda p: %s, lambda o: %s, %d, %g)\n", cases[i].make,
                cases[i].schedule, cases[i].every, cases[i].clip);
    fclose(script);
    char command[64];
    snprintf(command, sizeof command, "/usr/bin/python3 -W ignore %s", path);
    FILE *lines = access("/usr/bin/python3", X_OK) == 0 ? popen(command, "r") : NULL;
    int read = 0;
    for (double *at = &want[0][0][0];
         lines && read < NCASES * STEPS * NUMBERS && fscanf(lines, "%lf", at) == 1; at++)
        read++;
    if (lines) pclose(lines);
    unlink(path);
    CHECK(read == 0 || read == NCASES * STEPS * NUMBERS, "the oracle gave %d numbers", read);
    return read > 0;
}

static double *data_of(dl_interp *run, const dl_graph *g, const char *name) {
    const dl_var *v = dl_graph_find_var(g, name);
    CHECK(v, "no variable %s", name);
    return v ? dl_interp_data(run, &v->value) : NULL;
}

static double *metric_of(dl_interp *run, const dl_graph *g, const char *name) {
    const dl_result *r = dl_graph_find_result(g, DL_RESULT_METRIC, name);
    CHECK(r && r->value->type.dtype == DL_F64, "%s", name);
    return r ? dl_interp_data(run, r->value) : NULL;
}

static int count_op(const dl_graph *g, dl_op op) {
    int n = 0;
    for (int i = 0; i < g->nodes.n; i++) n += g->nodes.at[i]->op == op;
    return n;
}

/* The gradients' norm is taken once, for clipping and for who wants to see it; nobody asked,
 * nothing is. */
static void check_norms_shared(void) {
    static const int roots[2][2] = {{0, 2}, {1, 2}}; /* [clipped][seen] */
    for (int clip = 0; clip < 2; clip++)
        for (int norms = 0; norms < 2; norms++) {
            dl_error err = {0};
            dl_module *m = dl_parse_module(NULL, model, sizeof model - 1, "optimizers", &err);
            dl_pass_ctx ctx = {.arena = m->arena,
                               .step_options = {DL_OPT_sgd, FIXED, .clip = clip, .norms = norms},
                               .err = &err};
            CHECK(dl_run_passes(m, "autodiff,optimizer", &ctx,
                                (dl_pass_options){.validate = DL_VALIDATE_PASSES}),
                  "%s", err.message);
            const dl_graph *g = m->graphs.at[0];
            CHECK(count_op(g, DL_OP_sqrt) == roots[clip][norms], "clip %d, norms %d: %d roots",
                  clip, norms, count_op(g, DL_OP_sqrt));
            CHECK(!dl_graph_find_result(g, DL_RESULT_METRIC, "grad_norm") == !norms);
            CHECK(!dl_graph_find_result(g, DL_RESULT_METRIC, "weight_norm") == !norms);
            dl_arena_free(m->arena);
        }
}

static void check_case(const optimizer_case *c, const char *passes, bool norms,
                       double want[STEPS][NUMBERS]) {
    dl_error err = {0};
    dl_module *m = dl_parse_module(NULL, model, sizeof model - 1, "optimizers", &err);
    CHECK(m, "%s", err.message);
    dl_pass_ctx ctx = {
        .arena = m->arena, .weights = {DL_PANEL, 16}, .step_options = c->step_options, .err = &err};
    ctx.step_options.norms = norms;
    CHECK(dl_run_passes(m, passes, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES}),
          "%s: %s", c->name, err.message);
    dl_graph *g = m->graphs.at[0];
    CHECK(!dl_graph_find_result(g, DL_RESULT_GRAD, NULL), "gradients are not kept");
    dl_interp *run = dl_interp_new(g, false);
    for (int i = 0; i < g->vars.n; i++) { /* what nobody sets is worth what its variable says */
        const dl_value *v = &g->vars.at[i]->value;
        for (int64_t k = 0; k < dl_type_count(&v->type); k++)
            dl_interp_data(run, v)[k] = g->vars.at[i]->init.a;
    }
    for (int i = 0; i < MOST_SETTINGS && c->set[i].name; i++)
        *data_of(run, g, c->set[i].name) = c->set[i].value;
    double *w = data_of(run, g, "w"), *b = data_of(run, g, "b");
    memcpy(w, w0, sizeof w0), memcpy(b, b0, sizeof b0), memcpy(data_of(run, g, "x"), x0, sizeof x0);
    const double *rate = metric_of(run, g, "Learning Rate");
    const double *grad_norm = norms ? metric_of(run, g, "grad_norm") : NULL;
    const double *weight_norm = norms ? metric_of(run, g, "weight_norm") : NULL;
    for (int step = 0; step < STEPS; step++) {
        CHECK(dl_interp_run(run, &err), "%s", err.message);
        CHECK(fabs(*rate - want[step][0]) <= 1e-15, "%s, step %d: rate %.17g, want %.17g", c->name,
              step + 1, *rate, want[step][0]);
        for (int i = 0; i < (norms ? 8 : 6); i++) {
            double got = i < 4 ? w[i] : i < 6 ? b[i - 4] : i == 6 ? *grad_norm : *weight_norm;
            CHECK(fabs(got - want[step][1 + i]) <= 1e-12,
                  "%s, step %d, number %d: %.17g, want %.17g", c->name, step + 1, i, got,
                  want[step][1 + i]);
        }
    }
    CHECK_NEAR(*data_of(run, g, "optimizer.step"), STEPS, 0);
    dl_interp_free(run);
    dl_arena_free(m->arena);
}

/* ---- the loss scaler ---- */

typedef struct {
    double p[6], m[6], v[6]; /* four weights, two biases; their moments */
    double scale;
    int good, skipped;
} scaled_run;

/* Adam by its formulas on what is left of the steps; the rate rises by all of them. Growth behind 3
 * good ones. */
static void take_step(scaled_run *r, const double x[2], int step) {
    double g[6] = {0}, rate = 0.05 * fmin(1, step / 7.0);
    bool finite = true;
    for (int i = 0; i < 4; i++) {
        double y = tanh(r->p[i] * x[i / 2] + r->p[4 + i % 2]), dy = r->scale * (1 - y * y);
        g[i] = dy * x[i / 2], g[4 + i % 2] += dy;
    }
    for (int i = 0; i < 6; i++) finite = finite && isfinite(g[i]);
    if (!finite) {
        r->scale /= 2, r->good = 0, r->skipped++;
        return;
    }
    int taken = step - r->skipped;
    for (int i = 0; i < 6; i++) {
        double unscaled = g[i] * (1 / r->scale);
        r->m[i] = 0.9 * r->m[i] + 0.1 * unscaled,
        r->v[i] = 0.999 * r->v[i] + 0.001 * unscaled * unscaled;
        r->p[i] -= rate / (1 - pow(0.9, taken)) * r->m[i] /
                   (sqrt(r->v[i] / (1 - pow(0.999, taken))) + 1e-8);
    }
    if (++r->good == 3) r->good = 0, r->scale *= r->scale < 0x1p127 ? 2 : 1;
}

/* Scales, skipped steps and weights through infinite and undefined gradients; where a scale cannot
 * grow. */
static void check_scaler(const char *passes, double first) {
    static const double faults[STEPS] = {
        [0] = INFINITY, [1] = NAN, [9] = -INFINITY, [16] = NAN, [17] = NAN};
    dl_error err = {0};
    dl_module *m = dl_parse_module(NULL, model, sizeof model - 1, "optimizers", &err);
    dl_pass_ctx ctx = {.arena = m->arena,
                       .weights = {DL_PANEL, 16},
                       .step_options = {FIXED, .low = DL_F16},
                       .err = &err};
    CHECK(dl_run_passes(m, passes, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES}), "%s",
          err.message);
    dl_graph *g = m->graphs.at[0];
    dl_interp *run = dl_interp_new(g, false);
    for (int i = 0; i < g->vars.n; i++)
        *dl_interp_data(run, &g->vars.at[i]->value) = g->vars.at[i]->init.a;
    double *w = data_of(run, g, "w"), *b = data_of(run, g, "b"), *x = data_of(run, g, "x");
    double *scale = data_of(run, g, "scaler.scale"), *good = data_of(run, g, "scaler.good");
    const double *used = metric_of(run, g, "loss_scale"), *skipped = metric_of(run, g, "skipped");
    CHECK(*scale == 65536 && *data_of(run, g, "optimizer.scaler.growth_interval") == 2000);
    scaled_run want = {.scale = *scale = first};
    memcpy(want.p, w0, sizeof w0), memcpy(want.p + 4, b0, sizeof b0);
    memcpy(w, w0, sizeof w0), memcpy(b, b0, sizeof b0);
    *data_of(run, g, "optimizer.scaler.growth_interval") = 3;
    *data_of(run, g, "optimizer.lr.init") = 0.05, *data_of(run, g, "optimizer.lr.warmup") = 7;
    for (int step = 1; step <= STEPS; step++) {
        double before = want.scale, lost = want.skipped;
        memcpy(x, x0, sizeof x0);
        if (faults[step - 1] != 0) x[1] = faults[step - 1];
        take_step(&want, x, step);
        CHECK(dl_interp_run(run, &err), "%s", err.message);
        CHECK(*scale == want.scale && *good == want.good &&
                  *data_of(run, g, "scaler.skipped") == want.skipped,
              "%s, step %d: scale %g, %g good steps; want %g, %d", passes, step, *scale, *good,
              want.scale, want.good);
        CHECK(*used == before && *skipped == want.skipped - lost);
        for (int i = 0; i < 6; i++)
            CHECK(fabs((i < 4 ? w[i] : b[i - 4]) - want.p[i]) <= 1e-12,
                  "%s, step %d, number %d: %.17g, want %.17g", passes, step, i,
                  i < 4 ? w[i] : b[i - 4], want.p[i]);
    }
    CHECK(want.skipped == 5 && *data_of(run, g, "optimizer.step") == STEPS);
    dl_interp_free(run);
    dl_arena_free(m->arena);
}

/* Nothing of it where nothing is scaled, and its names are its own. */
static void check_scaler_names(void) {
    static const dl_dtype lows[] = {DL_F32, DL_BF16, DL_F16};
    for (int i = 0; i < 3; i++) {
        dl_error err = {0};
        dl_module *m = dl_parse_module(NULL, model, sizeof model - 1, "optimizers", &err);
        dl_pass_ctx ctx = {.arena = m->arena, .step_options = {FIXED, .low = lows[i]}, .err = &err};
        CHECK(dl_run_passes(m, "autodiff,optimizer", &ctx,
                            (dl_pass_options){.validate = DL_VALIDATE_PASSES}),
              "%s", err.message);
        CHECK(!dl_graph_find_var(m->graphs.at[0], "scaler.scale") == (lows[i] != DL_F16));
        CHECK(!dl_graph_find_result(m->graphs.at[0], DL_RESULT_METRIC, "skipped") ==
              (lows[i] != DL_F16));
        dl_arena_free(m->arena);
    }
    static const char taken[] = "graph @train {\n"
                                "  param $scaler.scale = %0 : f32[] init zero\n"
                                "  %1 = mul $scaler.scale, $scaler.scale : f32[]\n"
                                "  loss \"loss\" = %1\n"
                                "}\n";
    dl_error err = {0};
    dl_module *m = dl_parse_module(NULL, taken, sizeof taken - 1, "optimizers", &err);
    CHECK(m, "%s", err.message);
    dl_pass_ctx ctx = {.arena = m->arena, .step_options = {FIXED, .low = DL_F16}, .err = &err};
    CHECK(!dl_run_passes(m, "autodiff,optimizer", &ctx, (dl_pass_options){0}) &&
              err.code == DL_INPUT && strstr(err.message, "$scaler.scale"),
          "%s", err.message);
    dl_arena_free(m->arena);
}

/* Each row of both tables has a case, and is found by its name. */
static void check_coverage(void) {
    for (int row = 0; row < DL_OPT_NONE; row++) {
        int n = 0;
        for (int i = 0; i < NCASES; i++) n += cases[i].step_options.optimizer == (dl_optimizer)row;
        CHECK(n > 0, "no case for optimiser %d", row);
    }
    CHECK(dl_optimizer_find("adamw") == DL_OPT_adamw && dl_optimizer_find("adan") == -1, "find");
    CHECK(dl_schedule_find("piecewise") == DL_SCHEDULE_piecewise && dl_schedule_find("") == -1,
          "find");
#define SCHEDULE(id, help)                                                                         \
    {                                                                                              \
        int n = 0;                                                                                 \
        for (int i = 0; i < NCASES; i++) n += cases[i].step_options.schedule == DL_SCHEDULE_##id;  \
        CHECK(n > 0, "no case for schedule " #id);                                                 \
    }
#include "ir/base/schedules.def"
#undef SCHEDULE
}

int main(void) {
    static double want[NCASES][STEPS][NUMBERS];
    check_coverage();
    check_norms_shared();
    check_scaler_names();
    for (int i = 0; i < 2; i++) {
        check_scaler(i ? dl_pipeline : "autodiff,optimizer", 65536);
        check_scaler(i ? dl_pipeline : "autodiff,optimizer", 0x1p127);
    }
    if (ask_oracle(want)) {
        for (int i = 0; i < NCASES; i++) {
            for (int norms = 0; norms < 2; norms++) {
                check_case(&cases[i], "autodiff,optimizer", norms, want[i]);
                check_case(&cases[i], dl_pipeline, norms, want[i]);
            }
        }
    } else {
        dl_test_skip("optimisers against PyTorch (no /usr/bin/python3 with torch)");
    }
    return dl_test_end();
}
