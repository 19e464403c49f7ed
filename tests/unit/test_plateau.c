/* The plateau's rate compared with PyTorch's ReduceLROnPlateau, epoch by epoch. */
#include <stdlib.h>
#include <unistd.h>

#include "runtime/train/plateau.h"
#include "tests/check.h"

enum { EPOCHS = 200, CASES = 6 };

static const dlr_plateau_options options[CASES] = {
    {.factor = 0.1, .patience = 10, .threshold = 1e-4, .smallest = 1e-8},
    {.factor = 0.2, .patience = 3, .threshold = 1e-4, .least = 1e-5, .smallest = 1e-8},
    {.factor = 0.5, .patience = 0, .threshold = 0.05, .smallest = 1e-8},
    {.factor = 0.9, .patience = 1, .threshold = 0, .smallest = 1e-3},
    {.factor = 0.8, .patience = 1, .threshold = 1e-4, .cooldown = 5, .smallest = 1e-8},
    {.factor = 0.9,
     .patience = 0,
     .threshold = 1e-4,
     .cooldown = 1,
     .least = 1e-3,
     .smallest = 1e-8},
};

/* Falls, stays and rises; the same in Python. */
static const char oracle[] =
    "try: import torch\n"
    "except ImportError: raise SystemExit\n"
    "for factor, patience, threshold, cooldown, least, smallest in %s:\n"
    "    opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)\n"
    "    s = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=factor, patience=patience,\n"
    "        threshold=threshold, cooldown=cooldown, min_lr=least, eps=smallest)\n"
    "    for e in range(200):\n"
    "        s.step(1 / (1 + e * 7919 %% 101) + 3 / (1 + e // 20) + (float('nan') if e == 90 else "
    "0))\n"
    "        print(repr(opt.param_groups[0]['lr']))\n";

static double loss_of(int e) {
    return 1 / (1.0 + e * 7919 % 101) + 3 / (1.0 + e / 20) + (e == 90 ? NAN : 0);
}

int main(void) {
    char path[] = "/tmp/dl_plateau_XXXXXX", cases[1000] = "[", command[64];
    for (int i = 0; i < CASES; i++)
        snprintf(cases + strlen(cases), sizeof cases - strlen(cases),
                 "(%.17g, %d, %.17g, %d, %.17g, %.17g), ", options[i].factor,
                 (int)options[i].patience, options[i].threshold, (int)options[i].cooldown,
                 options[i].least, options[i].smallest);
    strcat(cases, "]");
    int fd = mkstemp(path);
    FILE *script = fd >= 0 ? fdopen(fd, "w") : NULL;
    CHECK(script, "no temporary file");
    if (!script) return dl_test_end();
    fprintf(script, oracle, cases);
    fclose(script);
    snprintf(command, sizeof command, "/usr/bin/python3 %s", path);
    FILE *lines = access("/usr/bin/python3", X_OK) == 0 ? popen(command, "r") : NULL;
    int asked = 0, fell = 0;
    double want;
    for (int i = 0; i < CASES; i++) {
        dlr_plateau p = {.best = INFINITY, .rate = 0.1};
        for (int e = 0; e < EPOCHS; e++) {
            fell += dlr_plateau_step(&p, &options[i], loss_of(e));
            if (!lines || fscanf(lines, "%lf", &want) != 1) continue;
            CHECK(fabs(p.rate - want) <= 1e-15, "case %d, epoch %d: %.17g, want %.17g", i, e,
                  p.rate, want);
            asked++;
        }
    }
    if (lines) pclose(lines);
    unlink(path);
    CHECK(fell > CASES, "%d times", fell);
    CHECK(asked == 0 || asked == CASES * EPOCHS, "the oracle gave %d numbers", asked);
    if (!asked) dl_test_skip("next to PyTorch (no /usr/bin/python3 with torch)");
    return dl_test_end();
}
