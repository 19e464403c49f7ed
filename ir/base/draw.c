#include "ir/base/draw.h"

#include <sys/random.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "ir/base/hash.h"
#include "ir/base/str.h"

uint64_t dl_draw_bits(void) {
    uint64_t bits = 0;
    int64_t now = dl_clock_ns();
    if (getrandom(&bits, sizeof bits, 0) != sizeof bits)
        bits = dl_hash(&now, sizeof now, (uint64_t)getpid());
    return bits;
}

const char *dl_draw_name(dl_arena *arena) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    enum { LENGTH = 8, LETTERS = sizeof letters - 1 };
    uint64_t bits = dl_draw_bits();
    char name[LENGTH];
    for (int i = 0; i < LENGTH; i++, bits /= LETTERS) name[i] = letters[bits % LETTERS];
    return dl_strndup(arena, name, LENGTH);
}
