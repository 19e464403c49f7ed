/* The outcome of a call, and the version. */
#include <stdio.h>

#include "library/model.h"

_Static_assert(sizeof(((dlc_status *)0)->message) >= sizeof(((dl_error *)0)->message),
               "room for all");

fenv_t library_default_floats(void) {
    fenv_t caller;
    fegetenv(&caller);
    fesetenv(FE_DFL_ENV);
    return caller;
}

void library_restore_floats(const fenv_t *caller) { fesetenv(caller); }

int library_end(bool ok, const dl_error *err, dlc_status *status) {
    if (!status) return ok;
    status->code = ok ? DL_OK : err->code ? (int)err->code : DL_INTERNAL;
    snprintf(status->message, sizeof status->message, "%s", ok ? "" : err->message);
    return ok;
}

bool library_guard(bool (*run)(dlc_model *m, const void *of, dl_error *err), dlc_model *m,
                   const void *of, dl_error *err) {
    dl_memory_guard guard = {0};
    char text[300];
    if (setjmp(guard.jump) != 0)
        return dl_fail(err, DL_RESOURCE, "%s", dl_no_memory_text(text, sizeof text, guard.bytes));
    dl_guard_memory(&guard);
    bool ok = run(m, of, err);
    dl_guard_memory(NULL);
    return ok;
}

locale_t library_enter_locale(void) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* the C library's own: no memory */
    return plain ? uselocale(plain) : (locale_t)0;
}

void library_leave_locale(locale_t before) {
    if (before) uselocale(before);
}

const char *dlc_version(void) { return DL_VERSION; }
