#include "runtime/report/range_parts.h"

#include <stdio.h>
#include <string.h>

/* theirs: preset weather's name, NULL where it has none. %lld: the number. */
static const struct {
    const char *ours, *theirs;
} names[DLR_PARTS] = {
    [DLR_PART_STEP] = {"step %lld", "step %lld"},
    [DLR_PART_WAIT] = {"data wait", NULL},
    [DLR_PART_COPY_IN] = {"data copy in %lld", "data copy in %lld"},
    [DLR_PART_PROGRAM] = {"program", "forward"},
    [DLR_PART_RESULTS] = {"results", "optimizer"},
    [DLR_PART_VALIDATION] = {"validation", NULL},
    [DLR_PART_CHECKPOINT] = {"checkpoint", NULL},
};

static void put_name(const char *form, int64_t number, char name[64]) {
    const char *at = strstr(form, "%lld");
    if (at)
        snprintf(name, 64, "%.*s%lld%s", (int)(at - form), form, (long long)number, at + 4);
    else
        snprintf(name, 64, "%s", form);
}

void dlr_part_name(dlr_part part, int64_t number, char name[64]) {
    put_name(names[part].ours, number, name);
}

void dlr_part_name_nvtx(dlr_part part, int64_t number, char name[64]) {
    put_name(names[part].theirs ? names[part].theirs : names[part].ours, number, name);
}
