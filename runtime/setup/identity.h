/* A model's identity in a checkpoint, by which a resumed run reports what has changed. */
#ifndef DL_IDENTITY_H
#define DL_IDENTITY_H
#include "compiler/session.h"
#include "runtime/train/train.h"

/* Identifies the model of a session whose graphs are as the front end built them, in the arena. */
dlr_run_model dl_identify(dl_arena *arena, const dl_session *s);
#endif
