/* The weights, as each variant's kernels read them, and the C source that embeds their file.
 *
 * The source takes the file with .incbin: 117 million parameters (models/unet.dl) as a table of C
 * would keep a compiler busy for minutes, with 25 GB of memory. Every compiler that knows the
 * kernels' vectors knows .incbin, too. The file's name is made of __FILE__, so that no include
 * path is needed. */
#include "exports/c/c_network.h"
#include "ir/base/output.h"
#include "runtime/exec/exec.h"

/* An executor of the plan's variables, without its code: loads weights into the plan's layouts. */
static dlr_exec *open_variables(const dl_c_network *c, const dl_c_variant *v, dl_error *err) {
    dl_plan *bare = DL_NEW(c->of->arena, dl_plan);
    *bare = *v->plan;
    bare->kernels.n = bare->objects.n = bare->programs.n = 0;
    bare->workspace_bytes = bare->scratch_bytes = 0;
    dlr_exec *exec = dlr_exec_open(bare, (dlr_exec_options){.threads = 1, .device = "cpu"}, err);
    if (exec && dl_saved_model_load(c->of->net, exec, err)) {
        dlr_exec_refresh_copies(exec);
        return exec;
    }
    dlr_exec_close(exec);
    return NULL;
}

static bool write_variant(const dl_c_network *c, const dl_c_variant *v, dl_output *out,
                          dl_error *err) {
    dlr_exec *exec = open_variables(c, v, err);
    bool ok = exec != NULL;
    for (int i = 0; ok && i < v->parts.n; i++) {
        const dl_c_part *p = &v->parts.at[i];
        if (p->var >= 0)
            ok = dl_output_write_at(out, (uint64_t)(v->weights_at + p->to),
                                    dlr_exec_arena(exec) + p->from, (size_t)p->n, err);
    }
    dlr_exec_close(exec);
    return ok;
}

bool dl_c_weights_write(const dl_c_network *c, const char *path, dl_error *err) {
    dl_output *out = dl_output_open(path, err);
    const dl_c_variant *last = &c->variant[c->n_variants - 1];
    bool ok = out && dl_output_extend(out, (uint64_t)(last->weights_at + last->weights), err);
    for (int i = 0; ok && i < c->n_variants; i++) ok = write_variant(c, &c->variant[i], out, err);
    if (ok) return dl_output_commit(out, err);
    dl_output_discard(out);
    return false;
}

static void put_variant(dl_buf *b, const dl_c_network *c, const dl_c_variant *v) {
    dl_putf(b,
            "__asm__(SECTION \"\\n.balign 64\\n.globl \" SYMBOL(%s_weights_%s) \"\\n\"\n"
            "        HIDDEN SYMBOL(%s_weights_%s) \"\\n\" SYMBOL(%s_weights_%s) \":\\n\"\n",
            c->name, v->name, c->name, v->name, c->name, v->name);
    if (v->weights)
        dl_putf(b, "        \".incbin \\\"\" %s_WEIGHTS_FILE \"\\\", %lld, %lld\\n\"\n", c->upper,
                (long long)v->weights_at, (long long)v->weights);
    dl_puts(b, "        \".text\\n\");\n");
}

void dl_c_put_weights(dl_buf *b, const dl_c_network *c) {
    dl_putf(
        b,
        "/* The weights of %s: each CPU's part of the file %s_weights.c.bin, which lies next to "
        "this one.\n * Compile it with the flags of %s.c. */\n"
        "#ifndef %s_WEIGHTS_FILE /* another path of it */\n"
        "#define %s_WEIGHTS_FILE __FILE__ \".bin\"\n#endif\n"
        "#define TEXT_(x) #x\n#define TEXT(x) TEXT_(x)\n"
        "#define SYMBOL(name) TEXT(__USER_LABEL_PREFIX__) #name\n"
        "#if defined __APPLE__\n#define SECTION \".section __TEXT,__const\"\n"
        "#define HIDDEN  \".private_extern \"\n"
        "#elif defined _WIN32\n#define SECTION \".section .rdata,\\\"dr\\\"\"\n"
        "#define HIDDEN  \"# \"\n"
        "#else\n#define SECTION \".section .rodata\"\n#define HIDDEN  \".hidden \"\n#endif\n\n",
        c->of->name, c->name, c->name, c->upper, c->upper);
    for (int i = 0; i < c->n_variants; i++) {
        const dl_c_variant *v = &c->variant[i];
        if (v->condition)
            dl_putf(b, "#%s %s\n", i ? "elif" : "if", v->condition);
        else if (i)
            dl_puts(b, "#else\n");
        put_variant(b, c, v);
    }
    if (c->variant[0].condition) dl_puts(b, "#endif\n");
    dl_putf(b, "typedef int %s_weights_are_elsewhere; /* C wants a declaration */\n", c->name);
}
