#include "runtime/train/save_tensors.h"

#include "runtime/checkpoint/tensors.h"
#include "runtime/formats/log.h"

static bool save(const dlr_run_ranks *ranks, dl_arena *arena, dlr_tensors *tensors,
                 const char *what, const char *path, dl_error *err) {
    if (!dlr_is_rank0(ranks)) return dlr_tensors_help_gather(tensors, err);
    if (!dlr_tensors_gather(arena, tensors, err)) return false;
    dlr_st_content content = dlr_tensors_content(tensors);
    dlr_st_written written;
    if (!dlr_st_write(path, &content, &written, err)) return false;
    dlr_log_info("%s written to %s", what, path);
    if (written.not_finite) /* the user may want the file because of them */
        dlr_log_warning("%s are not all finite: '%s' is the first that is not", what,
                        written.not_finite);
    return true;
}

bool dlr_save_gradients(dlr_exec *exec, int program, const dlr_run_ranks *ranks, const char *path,
                        dl_error *err) {
    if (!path) return true;
    dl_arena *arena = dl_arena_new(NULL);
    dlr_tensors gradients = dlr_tensors_of_gradients(arena, exec, program);
    bool ok = gradients.n > 0 ||
              dl_fail(err, DL_INTERNAL, "the plan was compiled without keeping gradients");
    ok = ok && save(ranks, arena, &gradients, "gradients of step 1", path, err);
    dl_arena_free(arena);
    return ok;
}

bool dlr_save_weights(dlr_exec *exec, const dlr_run_ranks *ranks, const char *path, dl_error *err) {
    if (!path) return true;
    dl_arena *arena = dl_arena_new(NULL);
    dlr_tensors model = dlr_tensors_of_model(arena, exec);
    bool ok = save(ranks, arena, &model, "weights", path, err);
    dl_arena_free(arena);
    return ok;
}
