/* The C side of check_cf.py: what the numbers of all arrays of some files stand for.
 *
 *   array_values FILE...
 *
 * For each array a line "FILE<tab>NAME<tab>ok<tab>N<tab>BYTES", N doubles and BYTES of warnings; or
 * "FILE<tab>NAME<tab>error<tab>0<tab>BYTES" and BYTES of message, also (NAME "") of a file that
 * cannot be opened. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/packing.h"

static void fault(const char *path, const char *name, const dl_error *err) {
    printf("%s\t%s\terror\t0\t%zu\n%s", path, name, strlen(err->message), err->message);
}

static bool put_values(const char *path, const dlr_array_file *f, const dlr_array_facts *a,
                       dl_error *err) {
    dlr_packing p;
    dl_buf warnings = {0};
    dlr_block all = {0};
    size_t n = 1;
    if (!dlr_packing_of(a, &p, &warnings, err)) return false;
    dlr_source *s = dlr_source_open(f, a, 1 << 20, err);
    if (!s) return false;
    for (int i = 0; i < a->rank; i++) n *= (size_t)(all.count[i] = a->dims[i]);
    double *values = malloc((n + 1) * sizeof *values);
    float *singles = malloc((n + 1) * sizeof *singles);
    bool ok = dlr_packing_read(&p, s, &all, DLR_EL_F64, values, err) &&
              dlr_packing_read(&p, s, &all, DLR_EL_F32, singles, err);
    for (size_t i = 0; ok && i < n; i++) { /* as f32 they are the same, rounded */
        float once = (float)values[i];
        if (memcmp(&once, &singles[i], sizeof once) != 0 &&
            !(once != once && singles[i] != singles[i]))
            ok = dl_fail(err, DL_INTERNAL, "number %zu is %g as f64 and %g as f32", i, values[i],
                         (double)singles[i]);
    }
    if (ok) {
        printf("%s\t%s\tok\t%zu\t%zu\n", path, a->name, n, warnings.n);
        fwrite(values, sizeof *values, n, stdout);
        fwrite(warnings.at, 1, warnings.n, stdout);
    }
    free(values), free(singles);
    dl_buf_free(&warnings);
    dlr_source_close(s);
    return ok;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        dl_error err = {0};
        dlr_array_file *f = dlr_array_file_open(argv[i], &err);
        if (!f) fault(argv[i], "", &err);
        for (int k = 0; f && k < f->n; k++) {
            dl_error reason = {0};
            if (!put_values(argv[i], f, &f->arrays[k], &reason))
                fault(argv[i], f->arrays[k].name, &reason);
        }
        dlr_array_file_close(f);
    }
    return 0;
}
