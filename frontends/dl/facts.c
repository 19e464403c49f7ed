#include "frontends/dl/facts.h"

enum { MOST_FACTS = 200000 };

void dl_facts_value(dl_facts *f, dl_span where, const char *text) {
    if (f->values.n < MOST_FACTS) dl_push(f->arena, &f->values, (dl_fact){where, dl_intern(text)});
}

void dl_facts_parameter(dl_facts *f, dl_span where, const char *name, const dl_type *type) {
    if (f->parameters.n == MOST_FACTS) return;
    const char *text = dl_format(f->arena, "%s: %s", name, dl_type_text(type));
    dl_push(f->arena, &f->parameters, (dl_fact){where, text});
}

/* Adds a text to those that were found, unless it is among them. */
static void add(const char *text, int most, const char **texts, int *shown, int *n) {
    for (int i = 0; i < *shown; i++)
        if (strcmp(texts[i], text) == 0) return;
    ++*n;
    if (*shown < most) texts[(*shown)++] = text;
}

int dl_facts_values_at(const dl_facts *f, uint32_t at, int most, const char **texts, int *n,
                       dl_span *where) {
    const dl_fact *best = NULL;
    for (int i = 0; i < f->values.n; i++) {
        const dl_fact *v = &f->values.at[i];
        bool holds = v->where.begin <= at && at < v->where.end;
        if (holds && (!best || v->where.end - v->where.begin < best->where.end - best->where.begin))
            best = v;
    }
    int shown = *n = 0;
    if (!best) return 0;
    *where = best->where;
    for (int i = 0; i < f->values.n; i++)
        if (f->values.at[i].where.begin == where->begin && f->values.at[i].where.end == where->end)
            add(f->values.at[i].text, most, texts, &shown, n);
    return shown;
}

int dl_facts_parameters_in(const dl_facts *f, dl_span where, int most, const char **texts, int *n) {
    int shown = *n = 0;
    for (int i = 0; i < f->parameters.n; i++) {
        const dl_fact *p = &f->parameters.at[i];
        if (where.begin <= p->where.begin && p->where.end <= where.end)
            add(p->text, most, texts, &shown, n);
    }
    return shown;
}
