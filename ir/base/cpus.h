/* How many CPUs this process may use, 1 at least: its affinity, as taskset and Slurm set it. */
#ifndef DL_CPUS_H
#define DL_CPUS_H
int dl_cpus_allowed(void);
#endif
