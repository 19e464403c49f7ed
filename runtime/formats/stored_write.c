/* Selects the format of a written file of tensors by its name. */
#include "runtime/formats/stored_internal.h"

/* Whether the name ends like those of PyTorch's files. */
static bool is_torch_name(const char *path) {
    static const char *const ends[] = {".pt", ".pth", ".tar"};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n > strlen(ends[i]) && strcmp(path + n - strlen(ends[i]), ends[i]) == 0) return true;
    return false;
}

bool dlr_st_write(const char *path, const dlr_st_content *content, dlr_st_written *written,
                  dl_error *err) {
    if (is_torch_name(path)) return dlr_torch_write_state(path, content, written, err);
    return dlr_st_write_as(path, content, dlr_safetensors_put, NULL, written, err);
}
