#include "runtime/data/foreign_formats.h"

#include <string.h>
#include <strings.h>

typedef struct {
    const char *name;
    size_t place, bytes; /* bytes 0: recognized by the name's ending alone */
    const char *magic, *endings, *package, *command;
} format;

/* No signature of the table begins with a zero byte, but some contain one. */
static const format formats[] = {
#define FORMAT(name, place, magic, endings, package, command)                                      \
    {name, place, sizeof magic - 1, magic, endings, package, command},
#define ZIP(name, end, package, command)
#include "runtime/data/foreign_formats.def"
#undef FORMAT
#undef ZIP
};

static const struct {
    const char *name, *end, *package, *command;
} zips[] = {
#define FORMAT(name, place, magic, endings, package, command)
#define ZIP(name, end, package, command) {name, end, package, command},
#include "runtime/data/foreign_formats.def"
#undef FORMAT
#undef ZIP
};

static bool ends_with(const char *name, const char *end, size_t n) {
    size_t all = strlen(name);
    return all >= n && strncasecmp(name + all - n, end, n) == 0;
}

/* Whether the name ends with a '.' and one of the words of a list such as " nii nii.gz ". */
static bool has_ending(const char *path, const char *endings) {
    for (const char *word = endings + 1; *word;) {
        size_t n = strcspn(word, " ");
        if (strlen(path) > n && ends_with(path, word, n) && path[strlen(path) - n - 1] == '.')
            return true;
        word += n + 1;
    }
    return false;
}

static bool refuse(const char *path, const char *name, const char *package, const char *command,
                   dl_error *err) {
    return dl_fail(err, DL_INPUT,
                   "%s is of the format %s, which is not read. Convert it: %s (package %s)", path,
                   name, command, package);
}

bool dlr_refuse_foreign(const char *path, const void *head, size_t n, dlr_foreign_by by,
                        dl_error *err) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const format *f = &formats[i];
        if ((by == DLR_FOREIGN_NAME) != (f->bytes == 0)) continue;
        if (f->bytes > n || f->place > n - f->bytes) continue;
        if (memcmp((const char *)head + f->place, f->magic, f->bytes) != 0) continue;
        if (!f->endings[0] || has_ending(path, f->endings))
            return refuse(path, f->name, f->package, f->command, err);
    }
    return true;
}

bool dlr_refuse_foreign_zip(const char *path, const char *entry, dl_error *err) {
    for (size_t i = 0; i < sizeof zips / sizeof *zips; i++)
        if (ends_with(entry, zips[i].end, strlen(zips[i].end)))
            return refuse(path, zips[i].name, zips[i].package, zips[i].command, err);
    return true;
}
