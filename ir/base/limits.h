/* Limits that several rooms share: of configuration keys, of --help and
 * docs/reference/configuration.md, and of the code that uses the values. */
#ifndef DL_LIMITS_H
#define DL_LIMITS_H
enum {
    DL_MAX_THREADS = 1024,  /* of a CPU run */
    DL_MAX_WORKERS = 256,   /* threads that prepare batches */
    DL_MAX_BATCH = 1 << 20, /* samples of a rank in a step */
    DL_MAX_RATE_RANGES = 32 /* ranges of epochs with a factor of the learning rate each */
};
#endif
