/* The format pytorch: prepares the graph, puts the file together, and writes the folder. */
#include "exports/pytorch/pytorch.h"

#include <ctype.h>

#include "exports/pytorch/parts.h"
#include "ir/base/output.h"

/* ---- the graph with one sample more ---- */

static bool is_alike(const dl_graph *a, const dl_graph *b) {
    bool alike = a->nodes.n == b->nodes.n && a->vars.n == b->vars.n && a->results.n == b->results.n;
    for (int i = 0; alike && i < a->nodes.n; i++) {
        const dl_node *m = a->nodes.at[i], *n = b->nodes.at[i];
        alike = m->op == n->op && m->nin == n->nin && m->nattrs == n->nattrs &&
                m->out[0].type.rank == n->out[0].type.rank && !m->body == !n->body &&
                (!m->body || is_alike(m->body, n->body));
    }
    for (int i = 0; alike && i < a->vars.n; i++) alike = a->vars.at[i]->name == b->vars.at[i]->name;
    return alike;
}

/* The same graph for one sample more shows which sizes depend on the samples. NULL: the model
 * fixes their number. */
static const dl_graph *with_one_more(const dl_export *e, int64_t samples) {
    dl_session *s = e->net->session;
    dl_module *was = s->module;
    dl_error ignored = {0};
    s->batch = samples + 1;
    bool built = dl_session_predict(s, 0, NULL, &ignored);
    const dl_graph *g = built ? s->module->graphs.at[0] : NULL;
    s->module = was, s->batch = samples;
    return g && is_alike(e->graph, g) ? g : NULL;
}

static void name_inputs(torch_export *t) {
    t->device = "next(self.parameters()).device";
    for (int i = 0; i < t->e->n_inputs; i++) {
        const dl_value *v = &t->e->input[i].var->value;
        const char *name = dl_torch_name(t, t->e->input[i].var->name);
        dl_torch_take(t, name);
        t->text[v->id] = (torch_text){.s = name, .level = TORCH_ATOM, .is_name = true};
        if (!i) t->device = dl_format(t->arena, "%s.device", name);
    }
}

/* ---- the file ---- */

static void put_array(dl_buf *to, const char *name, const dl_type *t) {
    dl_putf(to, "%s [", name);
    for (int i = 0; i < t->rank; i++) {
        bool samples = strcmp(t->axis[i].name, "N") == 0;
        dl_putf(to, "%s%s", i ? ", " : "", *t->axis[i].name ? t->axis[i].name : "1");
        if (!samples && *t->axis[i].name) dl_putf(to, "=%lld", (long long)t->axis[i].size);
    }
    dl_putf(to, "] %s\n", dl_torch_dtype(t->dtype) + strlen("torch."));
}

static bool is_scaled(const dl_export *e) {
    for (int i = 0; i < e->n_inputs; i++)
        if (e->input[i].record && e->input[i].record->n_scales) return true;
    for (int i = 0; i < e->n_outputs; i++)
        if (e->output[i].undo) return true;
    return false;
}

static void put_docstring(const torch_export *t, const char *file, dl_buf *to) {
    const dl_export *e = t->e;
    dl_putf(to,
            "\"\"\"%s, exported by `dlc export` from %s. The comments of forward are its lines.\n\n"
            "    from safetensors.torch import load_file\n"
            "    net = %s()\n"
            "    net.load_state_dict(load_file(\"%s.safetensors\"))\n"
            "    net.eval()\n\n",
            t->base,
            strrchr(e->net->model_path, '/') ? strrchr(e->net->model_path, '/') + 1
                                             : e->net->model_path,
            t->base, file);
    for (int i = 0; i < e->n_inputs; i++) {
        dl_puts(to, i ? "            " : "In:         ");
        put_array(to, t->text[e->input[i].var->value.id].s, &e->input[i].var->value.type);
    }
    for (int i = 0; i < e->n_outputs; i++) {
        dl_puts(to, i ? "            " : "Out:        ");
        put_array(to, e->output[i].name, &e->output[i].value->type);
    }
    if (is_scaled(e))
        dl_puts(to, "\nThe statistics of the training data are part of the network: it takes raw "
                    "numbers, and gives\nnumbers in the targets' units.");
    dl_puts(to, "\nThe network can be trained further; dropout is not part of it.");
    if (!t->next)
        dl_putf(to, "\nThe model fixes the number of samples: N=%lld.", (long long)t->samples);
    dl_puts(to, "\n\"\"\"\n");
}

/* The input and the axis that have the number of samples; false: none has. */
static bool put_samples(torch_export *t, dl_buf *to) {
    for (int i = 0; i < t->e->n_inputs; i++) {
        const dl_value *v = &t->e->input[i].var->value;
        for (int k = 0; k < v->type.rank; k++) {
            if (v->type.axis[k].size != t->samples || !dl_torch_varies(t, v, k)) continue;
            dl_putf(to, "        n = %s.shape[%d]\n", t->text[v->id].s, k);
            return true;
        }
    }
    return dl_fail(t->err, DL_INPUT,
                   "%s: PyTorch has no way to say a size that depends on the "
                   "samples, because no input has them",
                   t->e->net->model_path);
}

static bool put_class(torch_export *t, dl_buf *to) {
    dl_buf init = {0};
    dl_torch_put_init(t, &init);
    dl_torch_put_buffers(t, &init);
    bool ok = dl_torch_put_forward(t);
    if (ok) {
        dl_torch_put_helpers(t, to);
        dl_putf(to, "class %s(nn.Module):\n    def __init__(self):\n        super().__init__()\n%s",
                t->base, init.n ? init.at : "");
        dl_putf(to, "\n%s    def forward(self", t->has_gradients ? "    @differentiable\n" : "");
        for (int i = 0; i < t->e->n_inputs; i++)
            dl_putf(to, ", %s", t->text[t->e->input[i].var->value.id].s);
        dl_puts(to, "):\n");
        ok = !t->reads_samples || put_samples(t, to);
        dl_putn(to, t->body.at, t->body.n);
    }
    dl_buf_free(&init);
    return ok;
}

static bool put_file(torch_export *t, const char *file, dl_buf *to) {
    dl_buf class = {0};
    bool ok = put_class(t, &class);
    if (ok) {
        put_docstring(t, file, to);
        if (t->has_gradients) dl_puts(to, "from functools import wraps\n\n");
        dl_puts(to, "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n");
        dl_putn(to, class.at, class.n);
    }
    dl_buf_free(&class);
    return ok;
}

/* ---- the folder ---- */

static bool read_weight(void *ctx, int index, int64_t first, int64_t n, void *dst, dl_error *err) {
    const dlr_st_file *file = ctx;
    dlr_st_tensor part = dlr_st_part(&file->tensors[index], first, n);
    return dlr_st_load(file, &part, dst, err);
}

static bool write_weights(torch_export *t, const char *path, dl_error *err) {
    const dlr_st_file *file = t->e->weights;
    dlr_st_tensor *tensors = DL_NEWS(t->arena, dlr_st_tensor, file->n + 1);
    for (int i = 0; i < file->n; i++) {
        tensors[i] = file->tensors[i];
        tensors[i].data = NULL, tensors[i].view = NULL, tensors[i].joined = NULL;
    }
    static const dlr_st_meta metadata[] = {{"format", "pt"}};
    dlr_st_content content = {.tensors = tensors,
                              .n = file->n,
                              .metadata = metadata,
                              .n_metadata = 1,
                              .read = read_weight,
                              .ctx = (void *)file};
    return dlr_st_write(path, &content, NULL, err);
}

/* Are the weights those of the model? */
static bool check_weights(torch_export *t, dl_error *err) {
    dlr_st_tensor *want = DL_NEWS(t->arena, dlr_st_tensor, t->graph->vars.n + 1);
    static const dlr_st_dtype dtypes[DL_NDTYPES] = {
        [DL_F32] = DLR_ST_F32,   [DL_F64] = DLR_ST_F64, [DL_F16] = DLR_ST_F16,
        [DL_BF16] = DLR_ST_BF16, [DL_I32] = DLR_ST_I32, [DL_I64] = DLR_ST_I64,
        [DL_BOOL] = DLR_ST_BOOL};
    int n = 0;
    for (int i = 0; i < t->graph->vars.n; i++) {
        const dl_var *v = t->graph->vars.at[i];
        if (v->role != DL_VAR_PARAM && v->role != DL_VAR_STATE) continue;
        dlr_st_tensor *w = &want[n++];
        *w = (dlr_st_tensor){
            .name = v->name, .dtype = dtypes[v->value.type.dtype], .rank = v->value.type.rank};
        for (int k = 0; k < w->rank; k++) w->shape[k] = v->value.type.axis[k].size;
    }
    return dlr_st_check(t->e->weights, want, n, err);
}

static bool write_folder(torch_export *t, const char *file, const dl_buf *text, const char *out,
                         dl_error *err) {
    dl_output_dir *d = dl_output_dir_open(out, err);
    if (!d) return false;
    const char *path = dl_format(t->arena, "%s/%s", dl_output_dir_path(d), file);
    bool ok = dl_write_file(dl_format(t->arena, "%s.py", path), text->at, text->n, err) &&
              write_weights(t, dl_format(t->arena, "%s.safetensors", path), err);
    if (ok) return dl_output_dir_commit(d, err);
    dl_output_dir_discard(d);
    return false;
}

/* Modules of Python's own library, and those that the file and its users import. */
static const char python_modules[] =
    " abc aifc antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 "
    "bdb binascii bisect builtins bz2 calendar cgi cgitb chunk cmath cmd code codecs codeop "
    "collections colorsys compileall concurrent configparser contextlib contextvars copy "
    "copyreg crypt csv ctypes curses dataclasses datetime dbm decimal difflib dis distutils "
    "doctest email encodings ensurepip enum errno faulthandler fcntl filecmp fileinput fnmatch "
    "fractions ftplib functools gc genericpath getopt getpass gettext glob graphlib grp gzip "
    "hashlib heapq hmac html http idlelib imaplib imghdr imp importlib inspect io ipaddress "
    "itertools json keyword lib2to3 linecache locale logging lzma mailbox mailcap marshal math "
    "mimetypes mmap modulefinder msilib msvcrt multiprocessing netrc nis nntplib nt ntpath "
    "nturl2path numbers numpy opcode operator optparse os ossaudiodev pathlib pdb pickle "
    "pickletools pipes pkgutil platform plistlib poplib posix posixpath pprint profile pstats "
    "pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri random re readline reprlib "
    "resource rlcompleter runpy safetensors sched secrets select selectors shelve shlex shutil "
    "signal site smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre_compile "
    "sre_constants sre_parse ssl stat statistics string stringprep struct subprocess sunau "
    "symtable sys sysconfig syslog tabnanny tarfile telnetlib tempfile termios textwrap this "
    "threading time timeit tkinter token tokenize tomllib torch trace traceback tracemalloc tty "
    "turtle turtledemo types typing unicodedata unittest urllib uu uuid venv warnings wave "
    "weakref webbrowser winreg winsound wsgiref xdrlib xml xmlrpc zipapp zipfile zipimport zlib "
    "zoneinfo ";

static bool write(const dl_export *e, const char *out, dl_error *err) {
    dl_arena *arena = dl_arena_new(e->arena);
    torch_export t = {
        .e = e, .arena = arena, .err = err, .put_nodes = dl_torch_put_nodes, .indent = 8};
    t.samples = e->net->session->batch;
    dl_torch_enter(&t, e->graph, with_one_more(e, t.samples));
    t.has_gradients = dl_torch_has_gradients(e->graph);
    if (t.has_gradients) t.helps = 1u << TORCH_HELP_GRADIENT;
    t.base = dl_torch_name(&t, e->name);
    dl_torch_take(&t, t.base);
    const char *file = dl_export_file_name(arena, t.base, python_modules);
    name_inputs(&t);
    dl_torch_find_layers(&t);
    dl_torch_build_tree(&t);
    dl_buf text = {0};
    bool ok = check_weights(&t, err) && put_file(&t, file, &text) &&
              write_folder(&t, file, &text, out, err);
    dl_buf_free(&text);
    dl_buf_free(&t.body);
    dl_arena_free(arena);
    return ok;
}

const dl_export_format dl_export_pytorch = {
    .name = "pytorch", .help = "a folder with a module in Python and its weights", .write = write};
