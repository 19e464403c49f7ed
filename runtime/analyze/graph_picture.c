#include "runtime/analyze/graph_picture.h"

#include "ir/base/foreign.h"
#include "runtime/analyze/graph_layout.h"

/* Pixels. A letter of the monospaced font at this size is this wide. */
enum { MARGIN = 20, BOX = 36, RANK = 84, GAP = 28, FONT = 11, PAD = 9 };
static const double letter = 6.7;

static void put(dl_buf *b, const char *text) { dl_put_foreign(b, DL_IN_XML, text); }

/* The two lines of a box. */
typedef struct {
    const char *title, *line, *class;
} box_text;

static box_text text_of(dl_arena *arena, const dl_model_layer *l) {
    if (l->is_input) return (box_text){l->path, l->kind, "input"};
    if (!*l->path) return (box_text){*l->kind ? l->kind : "...", "", "op"};
    const char *kind = *l->kind ? l->kind : "layers";
    return (box_text){l->path,
                      l->parameters ? dl_format(arena, "%s, %lld", kind, (long long)l->parameters)
                                    : kind,
                      "layer"};
}

static double width_of(box_text t) {
    size_t n = strlen(t.title), m = strlen(t.line);
    return (double)(n > m ? n : m) * letter + 2 * PAD;
}

static double top_of(int rank) { return MARGIN + 24 + (double)rank * RANK; }

static void put_box(dl_buf *b, dl_arena *arena, const dl_layout_box *box, box_text t,
                    const dl_model_layer *l) {
    double x = MARGIN + box->x, y = top_of(box->rank);
    dl_putf(b, "<g class=\"%s\"><title>", t.class);
    put(b, t.title), dl_puts(b, ": "), put(b, t.line);
    if (l)
        dl_puts(b, "; "), put(b, dl_axes_text(arena, &l->type)),
            dl_putf(b, "; %.2f MFLOP; line %d", (double)l->flops * 1e-6, l->line);
    dl_putf(b, "</title><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"5\"/>",
            x - box->width / 2, y, box->width, BOX);
    dl_putf(b, "<text class=\"name\" x=\"%.1f\" y=\"%.1f\">", x, y + (*t.line ? 15 : 22));
    put(b, t.title);
    if (*t.line) dl_putf(b, "</text><text x=\"%.1f\" y=\"%.1f\">", x, y + 29), put(b, t.line);
    dl_puts(b, "</text></g>\n");
}

/* From the bottom of a box, through the bends, to the top of another. */
static void put_edge(dl_buf *b, const dl_graph_layout *l, const dl_layout_edge *e) {
    for (int i = 0; i < e->path.n; i++) {
        const dl_layout_box *box = &l->boxes.at[e->path.at[i]];
        double x = MARGIN + box->x, top = top_of(box->rank), bottom = top + BOX;
        if (!i) {
            dl_putf(b, "<path d=\"M%.1f %.1f", x, bottom);
            continue;
        }
        const dl_layout_box *from = &l->boxes.at[e->path.at[i - 1]];
        double before = top_of(from->rank) + BOX, middle = (before + top) / 2;
        dl_putf(b, " C%.1f %.1f %.1f %.1f %.1f %.1f", MARGIN + from->x, middle, x, middle, x, top);
        if (box->is_bend) dl_putf(b, " V%.1f", bottom);
    }
    dl_puts(b, "\"/>\n");
}

/* The axes of a result, under its box; once for each type that leaves it. */
static void put_axes(dl_buf *b, dl_arena *arena, const dl_layout_box *box, int nth,
                     const dl_type *type) {
    dl_putf(b, "<text class=\"axes\" x=\"%.1f\" y=\"%.1f\">", MARGIN + box->x + 4,
            top_of(box->rank) + BOX + 13 + 12 * nth);
    put(b, dl_axes_text(arena, type));
    dl_puts(b, "</text>\n");
}

static const char style[] =
    "<style>text{font:11px monospace;text-anchor:middle;fill:#222}.name{font-weight:bold}"
    "rect{fill:#eee;stroke:#777}.layer rect{fill:#dbe9f9;stroke:#3b6ea5}"
    ".input rect{fill:#e2f3e2;stroke:#3f8a3f}.output rect{fill:#fdebd3;stroke:#b5731d}"
    "path{fill:none;stroke:#888}.axes{text-anchor:start;fill:#555;font-size:10px;"
    "paint-order:stroke;stroke:#fff;stroke-width:3px}</style>\n";

typedef struct {
    dl_graph_layout l;
    DL_ARRAY(const dl_type *) types; /* by edge: what goes along it */
} picture;

static void add_edge(dl_arena *arena, picture *p, const dl_layer_operand *o, int to) {
    for (int i = 0; i < p->l.edges.n; i++)
        if (p->l.edges.at[i].from == o->from && p->l.edges.at[i].to == to) return;
    if (o->from >= to) return;
    dl_push(arena, &p->l.edges, (dl_layout_edge){.from = o->from, .to = to});
    dl_push(arena, &p->types, o->type);
}

static void put_all_axes(dl_buf *b, dl_arena *arena, const picture *p, int box) {
    const dl_type *seen[4];
    int n = 0;
    for (int i = 0; i < p->l.edges.n && n < 4; i++) {
        bool fresh = p->l.edges.at[i].from == box;
        for (int k = 0; k < n; k++) fresh &= !dl_type_same(seen[k], p->types.at[i]);
        if (!fresh) continue;
        put_axes(b, arena, &p->l.boxes.at[box], n, p->types.at[i]);
        seen[n++] = p->types.at[i];
    }
}

void dl_put_graph_picture(dl_buf *b, dl_arena *arena, const dl_model_layers *m, const char *title) {
    picture p = {0};
    int n = m->list.n, all = n + m->outputs.n;
    box_text *text = DL_NEWS(arena, box_text, all + 1);
    for (int i = 0; i < all; i++) {
        text[i] = i < n ? text_of(arena, &m->list.at[i]) : (box_text){"output", "", "output"};
        double axes = i < n ? (double)strlen(dl_axes_text(arena, &m->list.at[i].type)) * 6.1 : 0;
        double width = width_of(text[i]);
        /* The axes stand to the right of the box's middle: boxes leave room for them. */
        dl_push(arena, &p.l.boxes, (dl_layout_box){.width = 2 * axes > width ? 2 * axes : width});
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < m->list.at[i].operands.n; k++)
            add_edge(arena, &p, &m->list.at[i].operands.at[k], i);
    for (int i = n; i < all; i++) add_edge(arena, &p, &m->outputs.at[i - n], i);
    dl_lay_out_graph(arena, &p.l, GAP);
    double width = p.l.width + 2 * MARGIN, height = top_of(p.l.ranks) - RANK + BOX + MARGIN;
    dl_putf(b,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\">\n<title>",
            width, height, width, height);
    put(b, title), dl_puts(b, "</title>\n"), dl_puts(b, style);
    dl_putf(b, "<rect width=\"100%%\" height=\"100%%\" style=\"fill:#fff;stroke:none\"/>\n");
    for (int i = 0; i < p.l.edges.n; i++) put_edge(b, &p.l, &p.l.edges.at[i]);
    for (int i = 0; i < all; i++) {
        put_all_axes(b, arena, &p, i);
        dl_layout_box box = p.l.boxes.at[i];
        box.width = width_of(text[i]);
        put_box(b, arena, &box, text[i], i < n ? &m->list.at[i] : NULL);
    }
    dl_puts(b, "</svg>\n");
}
