/* Counts the file system calls by which this process and its children read data; `dlc
 * estimate-scaling` derives from them the load of many such processes. Each function below is the
 * system call of its name, and counts itself. Thread-safe. */
#ifndef DL_FILE_CALLS_H
#define DL_FILE_CALLS_H
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

typedef struct {
    int64_t opens;    /* files opened, each of which is closed, too */
    int64_t stats;    /* looks at a name or an open file: stat and its kin, access */
    int64_t listings; /* folders opened, listed and closed */
    int64_t entries;  /* names that they gave */
    int64_t reads;    /* of open files; those of a mapping are none */
    int64_t bytes;    /* read, of a mapping copied from it */
    int64_t unknown;  /* children whose reads the kernel did not count: they are missing above */
} dl_file_calls;

/* Since this process began. */
dl_file_calls dl_file_calls_so_far(void);
dl_file_calls dl_file_calls_since(const dl_file_calls *before);
/* Adds calls that were made elsewhere: by a library, by a child, or in a simulation. */
void dl_file_calls_add(const dl_file_calls *more);
/* *to += times * *more */
void dl_file_calls_sum(dl_file_calls *to, const dl_file_calls *more, double times);
/* All requests to a metadata server: opens and as many closes, looks, listings. */
int64_t dl_file_calls_metadata(const dl_file_calls *c);

int dl_stat(const char *path, struct stat *st);
int dl_lstat(const char *path, struct stat *st);
int dl_fstat(int fd, struct stat *st);
int dl_fstatat(int folder, const char *name, struct stat *st);
int dl_access(const char *path, int mode);
/* Each counts one listing, and its entries without "." and "..". */
DIR *dl_opendir(const char *path);
struct dirent *dl_readdir(DIR *folder);
int dl_scandir(const char *path, struct dirent ***list, int filter(const struct dirent *),
               int order(const struct dirent **, const struct dirent **));

/* The kernel's counts of the whole process (proc(5), /proc/self/io): for a child in which a library
 * reads and nothing else does. */
dl_file_calls dl_file_calls_kernel(void);
/* The reads and bytes since `begin`. */
dl_file_calls dl_file_calls_of_library(const dl_file_calls *begin);
#endif
