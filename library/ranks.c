/* Ranks of the caller's MPI program that train together. */
#include <string.h>
#include <unistd.h>

#include "ir/base/cpus.h"
#include "library/model.h"

bool library_join(dlc_model *m, const dlc_options *o, dl_error *err) {
    m->world = (dlr_world){.size = 1, .local_size = 1};
    if (!o->mpi_comm && !o->mpi_fint) return true;
    if (o->mpi_comm && o->mpi_fint)
        return dl_fail(
            err, DL_USAGE,
            "dlc_options: mpi_comm and mpi_fint are both given; one communicator is enough");
    if (!(m->comm = dlr_comm_of_caller(o->mpi_comm, o->mpi_fint, err))) return false;
    m->world = dlr_comm_world(m->comm);
    if (m->world.size > 1) return true;
    dlr_comm_close(m->comm, NULL);
    m->comm = NULL;
    return true;
}

bool library_agree(dlc_model *m, bool ok, const char *what, dl_error *err) {
    int failed = !ok;
    dl_error lost = {0};
    if (!m->comm) return ok;
    if (!dlr_comm_agree(m->comm, !ok, &failed, &lost)) {
        if (ok) *err = lost;
        return false;
    }
    return ok && (!failed || dl_fail(err, DL_PEER, "%s: another rank failed, and says why", what));
}

bool library_take_rank(dlc_model *m, dl_error *err) {
    if (!m->comm) return true;
    const dl_ranks *r = &m->session->ranks;
    if (r->size[DL_RANKS_DP] != m->world.size)
        return dl_fail(err, DL_USAGE,
                       "tensor_parallel and context_parallel are dlrun's: ranks of "
                       "dlc_options.mpi_comm have samples of their own, and the whole network");
    if (strcmp(dl_config_str(m->config, DL_KEY_comm_order), "fixed") != 0)
        return dl_fail(err, DL_USAGE,
                       "comm_order=mpi is dlrun's: ranks of dlc_options.mpi_comm are summed in "
                       "the order of their numbers");
    dl_session_take_rank(m->session, m->world.rank);
    return dl_groups_make(m->arena, m->comm, r, m->world.rank, m->groups, err);
}

bool library_check_plan(const dlc_model *m, dl_error *err) {
    for (int i = 0; m->comm && i < m->plan->programs.n; i++) {
        const dl_plan_program *p = &m->plan->programs.at[i];
        if (strcmp(p->name, "predict") == 0 && p->collectives.n)
            return dl_fail(err, DL_USAGE,
                           "the network predicts with several ranks together; "
                           "dlc_options.mpi_comm takes one that a rank runs alone");
        for (int k = 0; k < p->collectives.n; k++)
            if (p->collectives.at[k].op != DL_OP_all_reduce)
                return dl_fail(err, DL_USAGE,
                               "the optimiser's state is cut into the ranks' parts: "
                               "that is dlrun's; leave that key out");
    }
    return true;
}

int library_threads(const dlc_model *m) {
    int threads = (int)dl_config_int(m->config, DL_KEY_threads), here = m->world.local_size;
    if (threads || here <= 1 || dl_cpus_allowed() < sysconf(_SC_NPROCESSORS_ONLN)) return threads;
    return dl_cpus_allowed() > here ? dl_cpus_allowed() / here : 1;
}
