#include "ir/base/tags.h"

#include <stddef.h>
#include <strings.h>

static const char *const tags[] = {
    DL_TAG_TRAIN_LOSS,  DL_TAG_VALID_LOSS, DL_TAG_RATE,        DL_TAG_SPEED,      DL_TAG_WAIT,
    DL_TAG_PICTURE,     DL_TAG_SETTINGS,   DL_TAG_EPOCH,       DL_TAG_ITERATION,  DL_TAG_STEP,
    DL_TAG_LOSS,        DL_TAG_GRAD_NORM,  DL_TAG_WEIGHT_NORM, DL_TAG_LOSS_SCALE, DL_TAG_SKIPPED,
    DL_TAG_NOISE_SCALE, DL_TAG_PART_SQUARE};

const char *dl_tag_find(const char *name) {
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (strcasecmp(tags[i], name) == 0) return tags[i];
    return NULL;
}
