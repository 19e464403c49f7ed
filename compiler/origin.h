/* The origin of a plan's file, and whether a run may use its programs.
 *
 *     dl_plan_origin origin = dl_origin_of(arena, session, &opt, command);    before the
 * compilation dl_plan *p = dl_session_compile(session, &opt, &err); p->origin = origin,
 * dl_plan_write(p, "net.dlp", &err);
 *
 *     dl_model_text model = dl_origin_model(p);                               and later, elsewhere
 *     dl_session *s = dl_session_open_text(arena, config, &model, 1, NULL, &err);
 *     dl_session_options(s, p->target, &opt, &err) && dl_origin_check(p, "net.dlp", s, &opt, &err)
 *
 * The toolchain and the program are not part of it, as the kernels are there already. */
#ifndef DL_ORIGIN_H
#define DL_ORIGIN_H
#include "compiler/session.h"

/* The origin of a plan that this session is going to compile with these options, in the arena.
 * `command` is the command line that does it, without its outputs. */
dl_plan_origin dl_origin_of(dl_arena *arena, const dl_session *s, const dl_compile_options *opt,
                            const char *command);
/* Adds the predictions of the plan p, in the arena: programs of one sample, and of the session's
 * batch where the model treats its samples alone. Its graphs are as the front end built them. None
 * are added where an output is made of a target, or a fixed batch relates its samples. Errors:
 * those of dl_session_compile. */
bool dl_origin_predictions(dl_arena *arena, const dl_session *s, const dl_compile_options *opt,
                           dl_plan *p, dl_error *err);
/* The model of such a plan, for dl_session_open_text; it points into the plan. */
dl_model_text dl_origin_model(const dl_plan *p);
/* Whether the plan from the file `path` holds the programs that this session would be compiled to
 * with these options, and their code can be loaded: of a session without a graph "train" its
 * prediction of the session's batch. Errors: DL_INPUT with what differs, and the
 * command that compiles a plan which fits; DL_RESOURCE. */
bool dl_origin_check(const dl_plan *p, const char *path, const dl_session *s,
                     const dl_compile_options *opt, dl_error *err);
/* The command that compiled the plan with these words in addition ("--target=cpu"), and the file
 * `path` as its output. In the arena. */
const char *dl_origin_command(dl_arena *arena, const dl_plan *p, const char *words,
                              const char *path);
#endif
