/* `dlc fmt`: every model file of the project keeps its tree, and the result of a result is it. */
#include <dirent.h>

#include "frontends/dl/ast.h"
#include "frontends/dl/format.h"
#include "tests/check.h"

/* The tree without places. */
static char *tree(dl_arena *arena, const dl_source *s, dl_diags *diags) {
    dl_buf out = {0};
    dl_ast_print(&out, dl_parse_file(arena, s, diags));
    char *text = dl_strdup(arena, out.at), *to = text;
    dl_buf_free(&out);
    for (const char *p = text; *p; p++) {
        if (strncmp(p, "  # ", 4) == 0)
            while (*p && *p != '\n') p++;
        *to++ = *p;
        if (!*p) break;
    }
    *to = 0;
    return text;
}

static int comments(const char *text) {
    int n = 0;
    for (const char *p = text; *p; p++) n += *p == '#';
    return n;
}

static int files;

static void check_text(const char *name, const char *text, size_t n) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_source *s = dl_source_new(arena, name, text, n);
    dl_diags *diags = dl_diags_new(arena, s);
    dl_buf once = {0}, twice = {0};
    if (dl_source_bad_byte(s) < 0 && dl_format_source(arena, s, &once, diags)) {
        files++;
        dl_source *t = dl_source_new(arena, name, once.at, once.n);
        CHECK(dl_format_source(arena, t, &twice, diags), "%s parses again", name);
        CHECK(twice.at && strcmp(once.at, twice.at) == 0, "%s is the same twice", name);
        CHECK(strcmp(tree(arena, s, diags), tree(arena, t, diags)) == 0, "%s keeps its tree", name);
        CHECK(comments(s->text) == comments(once.at), "%s keeps its comments", name);
    }
    dl_buf_free(&once), dl_buf_free(&twice);
    dl_arena_free(arena);
}

static void check_folder(const char *folder, int depth) {
    DIR *d = opendir(folder);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        char path[1000];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        size_t n = strlen(path);
        if (e->d_name[0] == '.') continue;
        if (e->d_type == DT_DIR && depth < 5) check_folder(path, depth + 1);
        if (n < 4 || strcmp(path + n - 3, ".dl") != 0) continue;
        dl_arena *arena = dl_arena_new(NULL);
        dl_error err = {0};
        dl_source *s = dl_source_read(arena, path, &err);
        if (s) check_text(path, s->text, s->n);
        dl_arena_free(arena);
    }
    closedir(d);
}

static void check_form(const char *from, const char *want) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_source *s = dl_source_new(arena, "t.dl", from, strlen(from));
    dl_buf out = {0};
    CHECK(dl_format_source(arena, s, &out, dl_diags_new(arena, s)));
    CHECK_STR(out.at, want);
    dl_buf_free(&out);
    dl_arena_free(arena);
}

int main(void) {
    check_folder("models", 0);
    check_folder("tests", 0);
    check_folder("examples", 0);
    CHECK(files > 50, "%d files", files);
    check_form("model A( b = 2 ) :\n  input x:f32[ N,C = 3 ]  # in\n\n\n\n  y=-x**2+( x|>relu )\n  "
               "output y\n",
               "model A(b=2):\n    input x: f32[N, C=3]  # in\n\n\n    y = -x**2 + (x |> relu)\n   "
               " output y\n");
    check_form("model A():\n   # first\n   input x: f32[N]\n   for i in range( 2 ):\n      # of "
               "the loop\n      x=x+[1,2] [i]\n   y = x\n",
               "model A():\n    # first\n    input x: f32[N]\n    for i in range(2):\n        # of "
               "the loop\n        x = x + [1, 2][i]\n    y = x\n");
    check_form("model A():\n    input x: f32[N]\n    y = conv(x,\n  8, pad = 1)\n",
               "model A():\n    input x: f32[N]\n    y = conv(x,\n          8, pad=1)\n");
    char list[4000] = "model A():\n    input x: f32[N]\n    y = [0";
    for (int i = 1; i < 60; i++) snprintf(list + strlen(list), 20, ", %d", i);
    strcat(list, "]\n");
    check_text("a long list", list, strlen(list));
    char step[4000];
    snprintf(step, sizeof step, "%.*s |> relu\n", (int)strlen(list) - 1, list);
    check_text("a long step of a pipeline", step, strlen(step));
    dl_arena *arena = dl_arena_new(NULL);
    dl_source *s = dl_source_new(arena, "t.dl", list, strlen(list));
    dl_buf out = {0};
    dl_format_source(arena, s, &out, dl_diags_new(arena, s));
    int widest = 0;
    for (const char *p = out.at; *p; p += strcspn(p, "\n"), p += *p == '\n')
        widest = (int)strcspn(p, "\n") > widest ? (int)strcspn(p, "\n") : widest;
    CHECK(widest > 80 && widest <= 100, "%d columns", widest);
    dl_buf_free(&out);
    dl_arena_free(arena);
    return dl_test_end();
}
