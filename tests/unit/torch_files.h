/* For test_torch.c's sources: pickles and zip files written by hand. */
#ifndef DL_TORCH_FILES_H
#define DL_TORCH_FILES_H
#include "runtime/formats/torch_file.h"

#define V2         "ctorch._utils\n_rebuild_tensor_v2\n"
#define TEXT(n, s) "X" n "\0\0\0" s
#define STORAGE(class, key, n)                                                                     \
    "(X\7\0\0\0storagectorch\n" class "\nX\1\0\0\0" key "X\3\0\0\0cpuK" n "tQ"
#define HOOKS   "ccollections\nOrderedDict\n)R"
#define BYTES12 STORAGE("ByteStorage", "0", "\x0c")
/* {"a": tensor} */
#define MODEL(tensor) "\x80\2}X\1\0\0\0a" tensor "s."

extern dl_arena *arena;
const char *in_dir(const char *name);
dlr_torch_value tensor(const dlr_st_tensor *t);
const char *write_handmade(const char *pickle, size_t n, uint64_t storage);
void test_views(void);

/* Elements too far apart to be held at once are read run by run. */
void test_far_views(void);
void test_hostile_pickles(void);
void test_floods(void);
void load_good(void);

/* Every file cut short is refused, and each flip of one bit gives an error, or a file whose numbers
 * are those that were written: of the numbers' own bits always an error. */
void test_damaged_zip(void);
void test_hostile_zip(void);

/* Checksums that were left out (torch.serialization.set_crc32_options) are not looked at; one that
 * is there makes all count. */
void test_unsummed_zip(void);
void test_zip64(void);

/* Sound zip files that PyTorch did not write, and one of another kind of machine. */
void test_foreign_archives(void);
#endif
