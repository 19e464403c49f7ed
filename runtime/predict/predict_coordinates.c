/* Coordinates of the input's file that go along with the prediction, and
 * attributes such as units. */
#include <math.h>
#include <string.h>

#include "runtime/predict/predict_job.h"

static bool is_output(const dl_predict_job *job, const char *name) {
    const dl_plan_program *g = dl_plan_program_find(job->plan, "predict");
    for (int i = 0; i < g->results.n; i++)
        if (strcmp(g->results.at[i].name, name) == 0) return true;
    return false;
}

/* Arrays of one axis next to the input's array that are as long as one of its axes: latitudes,
 * times, ... How many of their numbers go along with what is predicted; 0: it is none. */
static int64_t coordinate_length(const dl_predict_job *job, const dlr_array_facts *a) {
    const dlr_field *f = &job->input[0].data[0];
    dlr_extent whole = dl_predict_whole_input(job, 0);
    if (a->rank != 1 || a->type == DLR_EL_NONE || a->refused || !dl_is_file_name(a->name)) return 0;
    if (is_output(job, a->name)) return 0;
    const dlr_field_part *p = f->parts;
    for (int k = 0; k < p->array->rank; k++) {
        int space = p->axis[k] - (f->type->rank - f->space);
        if (p->axis[k] > 0 && a->dims[0] == p->array->dims[k])
            return space < 0 ? a->dims[0] : whole.size[DLR_SPACE - f->space + space];
    }
    /* times only where all are predicted */
    bool all = f->in_order && job->n == 1 && dl_predict_count(job, 0) == f->samples;
    return all && a->dims[0] == f->samples ? f->samples : 0;
}

bool dl_predict_coordinates(dl_predict_job *job, dl_error *err) {
    const dlr_array_file *file = job->input[0].data[0].file;
    for (int i = 0; file && i < file->n; i++) {
        const dlr_array_facts *a = &file->arrays[i];
        dlr_block b = {.count = {coordinate_length(job, a)}};
        if (!b.count[0]) continue;
        double *all = DL_NEWS(job->arena, double, b.count[0]);
        dlr_source *s = dlr_source_open(file, a, 0, err);
        bool ok = s && dlr_source_read(s, &b, DLR_EL_F64, all, err);
        dlr_source_close(s);
        if (!ok) return false;
        dl_push(job->arena, &job->coordinates, (dl_coordinate){a, b.count[0], all});
    }
    return true;
}

/* ---- attributes ---- */

/* HDF5's and NetCDF's own, which point into their file. */
static bool is_internal(const char *name) {
    static const char *const own[] = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(name, own[i]) == 0) return true;
    return strncmp(name, "_Netcdf4", 8) == 0 || strncmp(name, "_NC", 3) == 0;
}

/* Texts, and single numbers of how numbers are stored, which go with stored ones alone. Of others
 * only the first number is known. */
static void copy_attributes(const dl_predict_job *job, const dlr_array_facts *a, bool stored,
                            dlr_h5_set *s) {
    dlr_h5_attribute *to = DL_NEWS(job->arena, dlr_h5_attribute, a->attribute_count + 1);
    s->attributes = to, s->n_attributes = 0;
    for (int i = 0; i < a->attribute_count; i++) {
        const dlr_attribute *of = &a->attributes[i];
        const bool is_text = isnan(of->number) && of->text;
        const int64_t n = is_text ? (int64_t)strlen(of->text) : -1;
        if (of->unread || is_internal(of->name) || (!stored && dlr_packing_knows(of->name)) ||
            n > DLR_H5_ATTRIBUTE || (!is_text && of->n != 1))
            continue;
        to[s->n_attributes++] =
            (dlr_h5_attribute){of->name, is_text ? DLR_H5_TEXT : DLR_H5_F64, n,
                               is_text ? (const void *)of->text : (const void *)&of->number};
    }
}

dlr_h5_set dl_predict_coordinate_set(const dl_predict_job *job, const dl_coordinate *c) {
    dlr_h5_set s = {.name = c->of->name, .type = DLR_H5_F64, .rank = 1, .dims = {c->n}};
    copy_attributes(job, c->of, true, &s);
    return s;
}

void dl_predict_describe_state(const dl_predict_job *job, dlr_h5_set *output) {
    if (!job->dt || job->fed < 0) return;
    const dlr_field *f = &job->input[job->fed].data[0];
    if (f->n_parts == 1 && !f->pictures) copy_attributes(job, f->parts[0].array, false, output);
}
