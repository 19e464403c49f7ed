#include "runtime/train/plateau.h"

bool dlr_plateau_step(dlr_plateau *p, const dlr_plateau_options *o, double loss) {
    if (loss < p->best * (1 - o->threshold))
        p->best = loss, p->bad = 0;
    else
        p->bad++;
    if (p->waiting > 0) p->waiting--, p->bad = 0;
    if (p->bad <= o->patience) return false;
    p->bad = 0, p->waiting = o->cooldown;
    double rate = p->rate * o->factor;
    if (rate < o->least) rate = o->least;
    if (!(p->rate - rate > o->smallest)) return false;
    p->rate = rate;
    return true;
}
