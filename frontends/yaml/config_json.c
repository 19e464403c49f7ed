/* The configuration as a flat JSON object: every key under its own name and each alias. */
#include "frontends/yaml/config_private.h"

static void put_entry(dl_buf *b, const char *name, const dl_yaml *v) {
    dl_puts(b, ", ");
    dl_yaml_put_json_string(b, name);
    dl_puts(b, ": ");
    dl_yaml_put_json(b, v);
}

void dl_config_put_json(const dl_config *c, dl_buf *b) {
    dl_puts(b, "{\"config\": ");
    dl_yaml_put_json_string(b, c->name);
    for (int i = 0; i < c->state->settings.n; i++) {
        const dl_setting *s = &c->state->settings.at[i];
        if (s->value) put_entry(b, s->row->name, s->value);
        for (const dl_key_alias *a = dl_key_aliases; i < DL_N_KEYS && a->name; a++)
            if (a->key == (dl_key)i) put_entry(b, a->name, s->value);
    }
    dl_puts(b, "}");
}
