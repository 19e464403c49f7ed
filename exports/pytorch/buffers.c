/* Buffers that are no part of the state_dict: the statistics of the run's data, the model's tables.
 */
#include "exports/pytorch/parts.h"

/* A name that no module or parameter of the network has. */
static const char *free_name(torch_export *t, const char *name) {
    for (int i = 0; i < t->root.members.n; i++)
        if (strcmp(t->root.members.at[i]->name, name) == 0)
            return free_name(t, dl_format(t->arena, "%s_", name));
    return name;
}

const char *dl_torch_statistic(torch_export *t, const char *array, const char *what) {
    return free_name(t, dl_format(t->arena, "%s_%s", array, what));
}

/* Axes after the one of the statistics, over which these are broadcast. */
static int axes_after(const dl_export_output *o) {
    const dl_type *t = &o->value->type;
    return o->undo->n_scales > 1 ? t->rank - 1 - dl_type_channel_axis(t) : 0;
}

/* The first output that is undone by the same statistics in the same shape. */
static int first_like(const dl_export *e, int output) {
    const dl_export_output *o = &e->output[output];
    int i = 0;
    while (e->output[i].undo != o->undo || axes_after(&e->output[i]) != axes_after(o)) i++;
    return i;
}

const char *dl_torch_undo_array(torch_export *t, int output) {
    const dl_export_output *all = t->e->output;
    int like = first_like(t->e, output), first = 0;
    while (all[first].undo != all[output].undo) first++;
    return like == first ? all[like].undo->name
                         : dl_format(t->arena, "%s_%s", all[like].undo->name, all[like].name);
}

const char *dl_torch_table(torch_export *t, const dl_var *v) {
    int number = 0;
    for (int i = 0; i < t->graph->vars.n; i++) {
        number += t->graph->vars.at[i]->role == DL_VAR_TABLE;
        if (t->graph->vars.at[i] == v) break;
    }
    return free_name(t, dl_format(t->arena, "table%d", number));
}

static void put_buffer(torch_export *t, dl_buf *to, const char *name, const char *value) {
    dl_torch_put(
        to, 8,
        dl_format(t->arena, "self.register_buffer(\"%s\", %s, persistent=False)", name, value));
}

static void put_values(torch_export *t, dl_buf *to, const char *name, const float *v, int n,
                       const char *shape) {
    dl_buf b = {0};
    dl_puts(&b, n == 1 ? "torch.tensor(" : "torch.tensor([");
    for (int i = 0; i < n; i++) dl_putf(&b, "%s%.9g", i ? ", " : "", (double)v[i]);
    dl_putf(&b, "%s, dtype=torch.float32)%s", n == 1 ? "" : "]", shape);
    put_buffer(t, to, name, b.at);
    dl_buf_free(&b);
}

/* Mean and deviation of an array, in the shape that broadcasts along its axis of channels. */
static void put_statistics(torch_export *t, dl_buf *to, const dl_array_record *r, const char *array,
                           const dl_type *type) {
    const char *shape = "";
    int axis = dl_type_channel_axis(type);
    if (r->n_scales > 1 && axis + 1 < type->rank) {
        for (int i = axis + 1; i < type->rank; i++) shape = dl_format(t->arena, "%s, 1", shape);
        shape = dl_format(t->arena, ".reshape(-1%s)", shape);
    }
    put_values(t, to, dl_torch_statistic(t, array, "mean"), r->mean, r->n_scales, shape);
    put_values(t, to, dl_torch_statistic(t, array, "deviation"), r->deviation, r->n_scales, shape);
}

/* The numbers of a table from `*at` on, as nested lists. */
static void put_list(torch_export *t, dl_buf *to, const dl_var *v, int axis, int64_t *at) {
    const dl_type *type = &v->value.type;
    if (axis == type->rank) {
        dl_puts(to, dl_torch_number(t, v->numbers.at[(*at)++], type->dtype));
        return;
    }
    dl_puts(to, "[");
    for (int64_t i = 0; i < type->axis[axis].size; i++) {
        if (i) dl_puts(to, ", ");
        put_list(t, to, v, axis + 1, at);
    }
    dl_puts(to, "]");
}

static void put_table(torch_export *t, dl_buf *to, const dl_var *v) {
    dl_buf b = {0};
    int64_t at = 0;
    dl_puts(&b, "torch.tensor(");
    put_list(t, &b, v, 0, &at);
    dl_putf(&b, ", dtype=%s)", dl_torch_dtype(v->value.type.dtype));
    put_buffer(t, to, dl_torch_table(t, v), b.at);
    dl_buf_free(&b);
}

void dl_torch_put_buffers(torch_export *t, dl_buf *to) {
    const dl_export *e = t->e;
    for (int i = 0; i < e->n_inputs; i++)
        if (e->input[i].record && e->input[i].record->n_scales)
            put_statistics(t, to, e->input[i].record, t->text[e->input[i].var->value.id].s,
                           &e->input[i].var->value.type);
    for (int i = 0; i < e->n_outputs; i++)
        if (e->output[i].undo && first_like(e, i) == i)
            put_statistics(t, to, e->output[i].undo, dl_torch_undo_array(t, i),
                           &e->output[i].value->type);
    for (int i = 0; i < t->graph->vars.n; i++)
        if (t->graph->vars.at[i]->role == DL_VAR_TABLE) put_table(t, to, t->graph->vars.at[i]);
}
