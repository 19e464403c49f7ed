/* state.json: the run's position, and the checksums that reveal damage. */
#include <stdio.h>
#include <stdlib.h>

#include "ir/base/input.h"
#include "runtime/formats/checkpoint_internal.h"
#include "runtime/formats/checksum.h"
#include "runtime/formats/json.h"

/* The file's last member is the checksum of all text before it, so that damage of state.json is
 * detected, too. */
static const char tail_format[] = ",\n  \"checksum\": \"%016llx\"\n}\n";
enum { TAIL = 37 };

static void put_line(dl_buf *b, const char *key) {
    dl_puts(b, b->n > 1 ? ",\n  " : "\n  ");
    dlr_json_put_key(b, key);
}

static unsigned long long sum_of(const char *text, size_t n) {
    dlr_checksum sum;
    dlr_checksum_start(&sum);
    dlr_checksum_add(&sum, text, n);
    return dlr_checksum_value(&sum);
}

static void put_value(dl_buf *b, const dlr_state_value *v) {
    switch (v->kind) {
    case DLR_STATE_INT: dl_putf(b, "%lld", (long long)v->integer); break;
    case DLR_STATE_TEXT: dlr_json_put_string(b, v->text); break;
    case DLR_STATE_REALS:
        dl_puts(b, "[");
        for (int i = 0; i < v->n_reals; i++) {
            if (i) dl_puts(b, ", ");
            dlr_json_put_exact(b, v->reals[i]);
        }
        dl_puts(b, "]");
    }
}

void dlr_checkpoint_state_print(dl_buf *b, const dlr_state *s, const dlr_state_part *parts,
                                int n_parts) {
    dl_puts(b, "{");
    put_line(b, "version"), dl_putf(b, "%d", DLR_STATE_VERSION);
    put_line(b, "epoch"), dl_putf(b, "%lld", (long long)s->epoch);
    put_line(b, "iteration"), dl_putf(b, "%lld", (long long)s->iteration);
    put_line(b, "position"), dl_putf(b, "%lld", (long long)s->position);
    /* A string, because many JSON readers keep only 53 bits of a number. */
    put_line(b, "seed"), dl_putf(b, "\"%llu\"", (unsigned long long)s->seed);
    put_line(b, "best_loss"), dlr_json_put_exact(b, s->best_loss);
    put_line(b, "epoch_loss"), dlr_json_put_exact(b, s->epoch_loss);
    put_line(b, "values"), dl_puts(b, "{");
    for (int i = 0; i < s->n_values; i++)
        dlr_json_put_key(b, s->values[i].key), put_value(b, &s->values[i]);
    dl_puts(b, "}");
    put_line(b, "files"), dl_puts(b, "{");
    for (int i = 0; i < n_parts; i++) {
        dlr_json_put_key(b, parts[i].name);
        dl_putf(b, "{\"bytes\": %llu, \"checksum\": \"%016llx\"}",
                (unsigned long long)parts[i].written.bytes,
                (unsigned long long)parts[i].written.checksum);
    }
    dl_puts(b, "}");
    dl_putf(b, tail_format, sum_of(b->at, b->n));
}

static bool read_int(const dlr_json *object, const char *key, int64_t *value) {
    const dlr_json *v = dlr_json_get(object, key);
    if (!v || v->kind != DLR_JSON_INT || v->integer < 0) return false;
    *value = v->integer;
    return true;
}

/* Parses a 64-bit whole number that is stored as a string. */
static bool read_u64(const dlr_json *object, const char *key, int base, uint64_t *value) {
    const dlr_json *v = dlr_json_get(object, key);
    if (!v || v->kind != DLR_JSON_STRING || !v->string[0]) return false;
    char *end;
    *value = strtoull(v->string, &end, base);
    return *end == 0;
}

static bool read_values(dl_arena *arena, const dlr_json *object, dlr_state *s) {
    if (!object || object->kind != DLR_JSON_OBJECT) return false;
    dlr_state_value *values = DL_NEWS(arena, dlr_state_value, object->n);
    for (int i = 0; i < object->n; i++) {
        const dlr_json *v = &object->members[i].value;
        dlr_state_value *out = &values[i];
        out->key = object->members[i].key;
        if (v->kind == DLR_JSON_INT) {
            out->kind = DLR_STATE_INT, out->integer = v->integer;
        } else if (v->kind == DLR_JSON_STRING) {
            out->kind = DLR_STATE_TEXT, out->text = v->string;
        } else if (v->kind == DLR_JSON_ARRAY) {
            double *reals = DL_NEWS(arena, double, v->n);
            for (int k = 0; k < v->n; k++)
                if (!dlr_json_number(&v->items[k], &reals[k])) return false;
            out->kind = DLR_STATE_REALS, out->reals = reals, out->n_reals = v->n;
        } else {
            return false;
        }
    }
    s->values = values, s->n_values = object->n;
    return true;
}

static bool read_parts(dl_arena *arena, const dlr_json *object, dlr_state_part **parts,
                       int *n_parts) {
    if (!object || object->kind != DLR_JSON_OBJECT) return false;
    *parts = DL_NEWS(arena, dlr_state_part, object->n);
    *n_parts = object->n;
    for (int i = 0; i < object->n; i++) {
        const dlr_json_member *m = &object->members[i];
        dlr_state_part *p = &(*parts)[i];
        int64_t bytes;
        size_t length;
        int number, of;
        p->name = m->key;
        if (!dlr_checkpoint_parse_name(p->name, &length, &number, &of) ||
            !read_int(&m->value, "bytes", &bytes) ||
            !read_u64(&m->value, "checksum", 16, &p->written.checksum))
            return false;
        p->written.bytes = (uint64_t)bytes;
    }
    return true;
}

bool dlr_checkpoint_state_read(dl_arena *arena, const char *path, dlr_state *s,
                               dlr_state_part **parts, int *n_parts, uint64_t *sum, dl_error *err) {
    size_t n;
    const char *text = dl_read_file(arena, path, DLR_STATE_MAX_BYTES, &n, err);
    if (!text) return false;
    char want[TAIL + 1];
    if (n > TAIL) snprintf(want, sizeof want, tail_format, sum_of(text, n - TAIL));
    *sum = sum_of(text, n);
    if (n <= TAIL || memcmp(text + n - TAIL, want, TAIL) != 0)
        return dl_fail(err, DL_INPUT, "%s is damaged: its checksum does not fit its text", path);
    const dlr_json *root = dlr_json_parse(arena, text, n, (dlr_json_limits){8, 1000000}, path, err);
    int64_t version;
    if (!root) return false;
    if (!read_int(root, "version", &version) || version != DLR_STATE_VERSION)
        return dl_fail(err, DL_INPUT,
                       "%s: written by another version of this program (format %d is read here)",
                       path, DLR_STATE_VERSION);
    *s = (dlr_state){0};
    if (read_int(root, "epoch", &s->epoch) && read_int(root, "iteration", &s->iteration) &&
        read_int(root, "position", &s->position) && read_u64(root, "seed", 10, &s->seed) &&
        dlr_json_number(dlr_json_get(root, "best_loss"), &s->best_loss) &&
        dlr_json_number(dlr_json_get(root, "epoch_loss"), &s->epoch_loss) &&
        read_values(arena, dlr_json_get(root, "values"), s) &&
        read_parts(arena, dlr_json_get(root, "files"), parts, n_parts))
        return true;
    return dl_fail(err, DL_INPUT, "%s: a member is missing or of the wrong kind", path);
}
