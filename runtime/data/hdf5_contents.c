/* The data sets of an HDF5 file, through links too. Only for child processes (hdf5_contents.h). */
#include "runtime/data/hdf5_contents.h"

#include <hdf5.h>
#include <stdlib.h>

enum { MOST_LINKS = 512 };

/* A link to elsewhere, and the link to the group in which it was met. */
typedef struct {
    char name[DLR_HDF5_NAME];                    /* as it is listed */
    char in[DLR_HDF5_FILE], path[DLR_HDF5_NAME]; /* where the link is */
    int from;                                    /* -1: the file's own */
} link_seen;

typedef struct {
    const char *main;
    dlr_hdf5_facts *facts;
    dlr_hdf5_place group; /* whose contents are visited */
    const char *prefix;   /* of their names */
    int from, links;
    link_seen link[MOST_LINKS];
} contents;

/* Joins names by a slash; false: they do not fit. */
static bool join(char out[DLR_HDF5_NAME], const char *group, const char *name) {
    return snprintf(out, DLR_HDF5_NAME, "%s%s%s", group, group[0] ? "/" : "", name) < DLR_HDF5_NAME;
}

/* Whether an object that cannot be opened is an array, as far as its header shows. */
static bool may_be_array(hid_t file, const char *name) {
    H5O_info_t about;
    return H5Oget_info_by_name2(file, name, &about, H5O_INFO_BASIC, H5P_DEFAULT) < 0 ||
           about.type == H5O_TYPE_DATASET;
}

/* Whether it is a dimension of NetCDF without a variable of its name: an array that stands for its
 * size, and was never written. */
static bool is_dimension(hid_t object) {
    static const char begin[] = "This is a netCDF dimension but not a netCDF variable";
    dlr_hdf5_attribute name;
    return dlr_hdf5_read_attribute(object, "NAME", &name, NULL, 0) && name.is_text &&
           strncmp(name.text, begin, sizeof begin - 1) == 0;
}

/* Describes the object where it is an array. */
static void add_object(contents *c, hid_t at, const char *name, dlr_hdf5_set *set) {
    hid_t object = H5Oopen(at, name, H5P_DEFAULT);
    if (object < 0) {
        if (dlr_hdf5_why_closed(set->why, sizeof set->why)) set->odd = DLR_ODD_NUMBERS;
        set->layout = DLR_HDF5_CLOSED, set->element = DLR_EL_NONE;
        strcpy(set->type, "?");
        c->facts->n += may_be_array(at, name);
        return;
    }
    if (H5Iget_type(object) == H5I_DATASET && !is_dimension(object)) {
        dlr_hdf5_describe(object, set);
        dlr_hdf5_keep_attributes(object, c->facts, set);
        c->facts->n++;
    }
    H5Oclose(object);
}

/* The next set, empty but for its names; NULL: there are too many. */
static dlr_hdf5_set *new_set(contents *c, const char *name, const char *in, const char *path) {
    if (c->facts->n == DLR_HDF5_SETS) return c->facts->more = true, NULL;
    dlr_hdf5_set *set = &c->facts->set[c->facts->n];
    *set = (dlr_hdf5_set){.rank = 0};
    snprintf(set->name, sizeof set->name, "%s", name);
    snprintf(set->file, sizeof set->file, "%s", in);
    snprintf(set->path, sizeof set->path, "%s", path);
    return set;
}

static void add_link(contents *c, const char *name, const char *path) {
    if (c->links == MOST_LINKS) {
        c->facts->more = true;
        return;
    }
    link_seen *l = &c->link[c->links++];
    snprintf(l->name, sizeof l->name, "%s", name);
    snprintf(l->path, sizeof l->path, "%s", path);
    snprintf(l->in, sizeof l->in, "%s", c->group.in);
    l->from = c->from;
}

/* Visits one link of a group and of those within: a data set is described, a link to elsewhere is
 * kept for later. */
static herr_t visit(hid_t group, const char *name, const H5L_info_t *link, void *context) {
    contents *c = context;
    char listed[DLR_HDF5_NAME], path[DLR_HDF5_NAME];
    if (!join(listed, c->prefix, name) || !join(path, c->group.path, name)) {
        c->facts->more = true;
        return 0;
    }
    if (link->type != H5L_TYPE_HARD) return add_link(c, listed, path), 0;
    dlr_hdf5_set *set = new_set(c, listed, c->group.in, path);
    if (!set) return 1;
    add_object(c, group, name, set);
    return 0;
}

static void add_refused(contents *c, const char *name, const char *why) {
    dlr_hdf5_set *set = new_set(c, name, "", name);
    if (!set) return;
    set->layout = DLR_HDF5_LINK, set->element = DLR_EL_NONE;
    strcpy(set->type, "(a link)");
    snprintf(set->why, sizeof set->why, "%s", why);
    c->facts->n++;
}

/* Whether the group holds the link, or one of the links that led to it. */
static bool holds(const contents *c, const dlr_hdf5_place *group, int link) {
    const size_t n = strlen(group->path);
    for (; link >= 0; link = c->link[link].from) {
        const link_seen *l = &c->link[link];
        if (strcmp(l->in, group->in) == 0 && strncmp(l->path, group->path, n) == 0 &&
            (n == 0 || l->path[n] == '/'))
            return true;
    }
    return false;
}

/* Visits the group at which the link ends. */
static void add_group(contents *c, const dlr_hdf5_place *end, int link) {
    const link_seen *l = &c->link[link];
    char why[DLR_HDF5_WHY];
    if (holds(c, end, link)) {
        add_refused(c, l->name, "is a link to a group that holds it: name an array of that group");
        return;
    }
    hid_t group = H5Gopen2(end->file, end->path[0] ? end->path : "/", H5P_DEFAULT);
    c->group = *end, c->prefix = l->name, c->from = link;
    if (group < 0 || H5Lvisit(group, H5_INDEX_NAME, H5_ITER_INC, visit, c) < 0) {
        dlr_hdf5_why_closed(why, sizeof why);
        add_refused(c, l->name, why);
    }
    if (group >= 0) H5Gclose(group);
}

/* Adds the arrays to which a link leads. */
static void add_linked(contents *c, int link) {
    const link_seen *l = &c->link[link];
    dlr_hdf5_place end;
    char why[DLR_HDF5_WHY];
    H5O_info_t about = {0};
    bool ok = dlr_hdf5_place_open(c->main, l->in, &end, why, sizeof why) &&
              dlr_hdf5_follow(c->main, &end, l->path, why, sizeof why);
    const char *path = end.path[0] ? end.path : "/";
    if (ok && H5Oget_info_by_name2(end.file, path, &about, H5O_INFO_BASIC, H5P_DEFAULT) >= 0 &&
        about.type == H5O_TYPE_GROUP)
        add_group(c, &end, link);
    else if (ok) {
        dlr_hdf5_set *set = new_set(c, l->name, end.in, end.path);
        if (set) add_object(c, end.file, path, set);
    } else
        add_refused(c, l->name, why);
    if (end.file >= 0) H5Fclose(end.file);
}

/* The pages that nothing is written to take no memory. */
static bool make_room(dlr_hdf5_facts *facts) {
    facts->number = calloc(DLR_HDF5_NUMBERS, sizeof *facts->number);
    facts->attribute = calloc(DLR_HDF5_ATTRIBUTES, sizeof *facts->attribute);
    facts->set = calloc(DLR_HDF5_SETS, sizeof *facts->set);
    return facts->number && facts->attribute && facts->set;
}

bool dlr_hdf5_read_contents(void *path, dl_sandbox_result *out, dl_error *err) {
    char reason[200];
    dlr_hdf5_facts *facts = calloc(1, sizeof *facts);
    contents *c = calloc(1, sizeof *c);
    if (!facts || !c || !make_room(facts))
        return dl_fail(err, DL_RESOURCE, "no memory to read %s", (char *)path);
    c->main = path, c->facts = facts, c->prefix = "", c->from = -1;
    dlr_hdf5_quiet();
    hid_t file = dlr_hdf5_open(path);
    facts->netcdf = file >= 0 && H5Aexists(file, "_NCProperties") > 0;
    if (file < 0 || H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, visit, c) < 0) {
        dlr_hdf5_reason(reason, sizeof reason);
        if (!strstr(reason, "version"))
            return dl_fail(err, DL_INPUT, "%s is damaged or no HDF5 file: %s", (char *)path,
                           reason);
        char why[DLR_HDF5_WHY];
        dlr_hdf5_why_closed(why, sizeof why);
        return dl_fail(err, DL_INPUT, "%s %s", (char *)path, why);
    }
    for (int i = 0; i < c->links; i++) add_linked(c, i);
    dl_putn(&out->bytes, (const char *)facts, sizeof *facts);
    dl_putn(&out->bytes, (const char *)facts->number,
            (size_t)facts->numbers * sizeof *facts->number);
    dl_putn(&out->bytes, (const char *)facts->attribute,
            (size_t)facts->attributes * sizeof *facts->attribute);
    dl_putn(&out->bytes, (const char *)facts->set, (size_t)facts->n * sizeof *facts->set);
    return true;
}
