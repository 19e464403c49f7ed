/* The environment variables that the programs read, for --help. */
#ifndef ENVIRONMENT_H
#define ENVIRONMENT_H

#define ENVIRONMENT_HELP                                                                           \
    "\nEnvironment:\n"                                                                             \
    "  DLR_CACHE_DIR              folder of compiled kernels and plans ($XDG_CACHE_HOME/dlc, "     \
    "~/.cache/dlc)\n"                                                                              \
    "  DLR_CACHE_PATH             folders of kernels and plans that are only read, with colons\n"  \
    "                             (docs/guide/install-on-a-cluster.md)\n"                          \
    "  DLR_CACHE_MAX              bound of DLR_CACHE_DIR, such as 5GiB (1GiB; 0: none); dlc "      \
    "cache\n"                                                                                      \
    "  CC                         the C compiler (cc, gcc or clang, whichever is there)\n"         \
    "  DLC_SKIP                   passes to leave out, for debugging: fuse,schedule\n"             \
    "  DLR_DEBUG                  words with commas: nan (stop at the first value that is not "    \
    "finite), "                                                                                    \
    "guard\n"                                                                                      \
    "                             (docs/guide/gpu.md); of a GPU: driver, launches "                \
    "(runtime/cuda/README.md)\n"                                                                   \
    "  TMPDIR                     where kernels are loaded from if no file may live in memory, "   \
    "and\n"                                                                                        \
    "                             compiled where DLR_CACHE_DIR cannot be written (/tmp)\n"         \
    "  ENABLE_PROFILING           1: dlrun records steps of epoch 4, as by --profile; beneath "    \
    "NVIDIA's "                                                                                    \
    "profilers their ranges\n"                                                                     \
    "  PROFILE_OUTPUT             names those files (profile)\n"                                   \
    "  DLR_MPIRUN, DLR_MPIRUN_ARGS  the mpirun of -n N, and more arguments for it; DLR_MPI: "      \
    "openmpi or "                                                                                  \
    "mpich\n"                                                                                      \
    "  DLR_NCCL                   NCCL's library, for ranks on GPUs (docs/guide/many-gpus.md)\n"   \
    "  WANDB_MODE                 with log_to_wandb: offline, disabled, or online (which is "      \
    "written "                                                                                     \
    "offline, too)\n"                                                                              \
    "  WANDB_ENTITY, _PROJECT, _RUN_GROUP, _NAME, _RUN_ID, _SWEEP_ID, _JOB_TYPE, _NOTES, _TAGS,\n" \
    "                             _DIR: as "                                                       \
    "for W&B's own library\n"                                                                      \
    "  NO_COLOR                   set: no colours on a terminal\n"

#endif
