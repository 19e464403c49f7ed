/* Predicts the samples of a raw file of float32 numbers: embed RUN INPUT OUTPUT */
#include <dlc.h>
#include <stdio.h>
#include <stdlib.h>

static size_t per_sample(const dlc_model *net, dlc_role role) {
    dlc_tensor t;
    size_t n = 1;
    if (!dlc_describe(net, role, 0, &t)) return 0;
    for (int k = 1; k < t.rank; k++) n *= (size_t)t.shape[k];
    return n;
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "embed RUN INPUT OUTPUT\n"), 2;
    dlc_status status = {0};
    dlc_model *net = dlc_open(argv[1], NULL, &status);
    if (!net) return fprintf(stderr, "%s\n", status.message), status.code;

    FILE *file = fopen(argv[2], "rb");
    if (!file || fseek(file, 0, SEEK_END)) return perror(argv[2]), 4;
    size_t samples = (size_t)ftell(file) / sizeof(float) / per_sample(net, DLC_INPUT);
    size_t in = samples * per_sample(net, DLC_INPUT), out = samples * per_sample(net, DLC_OUTPUT);
    float *x = malloc(in * sizeof *x), *y = malloc(out * sizeof *y);
    rewind(file);
    if (!x || !y || fread(x, sizeof *x, in, file) != in) return perror(argv[2]), 4;
    fclose(file);

    const void *inputs[] = {x};
    void *outputs[] = {y};
    if (!dlc_predict(net, (int64_t)samples, inputs, outputs, &status))
        return fprintf(stderr, "%s\n", status.message), status.code;

    file = fopen(argv[3], "wb");
    if (!file || fwrite(y, sizeof *y, out, file) != out || fclose(file)) return perror(argv[3]), 4;
    free(x), free(y);
    dlc_close(net);
    return 0;
}
