/* How many CPUs the process may use. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/team.h"

static int affinity(void) {
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

#ifdef __linux__

enum { PATH = 1024 };

/* CPUs that a quota grants, rounded up; 0 for none. */
static int granted(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return 0;
    const long long cpus = (quota + period - 1) / period;
    return cpus < 1 << 20 ? (int)cpus : 0;
}

static int quota_of(const char *folder) {
    char path[PATH + 64];
    long long quota = 0, period = 0;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    const int n = fscanf(f, "%lld %lld", &quota, &period);
    fclose(f);
    return n == 2 ? granted(quota, period) : 0;
}

static long long number_in(const char *path) {
    long long value = 0;
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    if (fscanf(f, "%lld", &value) != 1) value = 0;
    fclose(f);
    return value;
}

/* Path of the process in the unified hierarchy, with the mount point before it. */
static void own_folder(char *out, size_t size) {
    char line[PATH];
    snprintf(out, size, "/sys/fs/cgroup");
    FILE *f = fopen("/proc/self/cgroup", "r");
    if (!f) return;
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "0::/", 4) != 0) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, size, "/sys/fs/cgroup%.*s", PATH - 64, line + 3);
    }
    fclose(f);
}

/* The tightest quota from the process's own group up to the root; 0 for none. */
static int cgroup_limit(void) {
    char folder[PATH];
    own_folder(folder, sizeof folder);
    int least = granted(number_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
                        number_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
    for (char *end = folder + strlen(folder); end; end = strrchr(folder, '/')) {
        *end = 0;
        if (strlen(folder) < strlen("/sys/fs/cgroup")) break;
        const int quota = quota_of(folder);
        if (quota && (!least || quota < least)) least = quota;
    }
    return least;
}

#else

static int cgroup_limit(void) { return 0; }

#endif

int pf_team_default_threads(void) {
    int n = affinity();
    const char *text = getenv("OMP_NUM_THREADS");
    const long wanted = text ? strtol(text, NULL, 10) : 0;
    if (wanted > 0 && wanted < n) n = (int)wanted;
    const int quota = cgroup_limit();
    if (quota > 0 && quota < n) n = quota;
    return n < 1 ? 1 : n > PF_MOST_THREADS ? PF_MOST_THREADS : n;
}
