/* Peak of this machine: `probe fma THREADS` prints single-precision FLOP/s, `probe read THREADS MEGABYTES` bytes/s
 * of reading (0 megabytes: half a one). Best of many short bursts, all threads starting each together. Compiled and
 * run by probe.py; stands alone. */

#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
#define LANES (BYTES / 4)
#define CHAINS 12
#define BURSTS 60

typedef float vec __attribute__((vector_size(BYTES)));

typedef struct {
    int kind; /* 0: multiply-add, 1: read */
    size_t count;
    double begin[BURSTS], end[BURSTS];
    pthread_barrier_t *barrier;
    float sink;
} job;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Separate variables, not an array: they must stay in registers. All start differently: equal chains are one chain to
 * the compiler. */
static float multiply_add(size_t steps, float seed) {
    vec a = {0};
    a = a + (1.0f - seed * 1e-6f);
    vec b = a * 1e-6f;
    vec c0 = b, c1 = c0 + b, c2 = c1 + b, c3 = c2 + b, c4 = c3 + b, c5 = c4 + b;
    vec c6 = c5 + b, c7 = c6 + b, c8 = c7 + b, c9 = c8 + b, c10 = c9 + b, c11 = c10 + b;
    for (size_t i = 0; i < steps; i++) {
        c0 = c0 * a + b, c1 = c1 * a + b, c2 = c2 * a + b, c3 = c3 * a + b;
        c4 = c4 * a + b, c5 = c5 * a + b, c6 = c6 * a + b, c7 = c7 * a + b;
        c8 = c8 * a + b, c9 = c9 * a + b, c10 = c10 * a + b, c11 = c11 * a + b;
    }
    vec sum = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9 + c10 + c11;
    float total = 0;
    for (int i = 0; i < LANES; i++) total += sum[i];
    return total;
}

static float read_all(const vec *data, size_t vectors) {
    vec s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, s4 = {0}, s5 = {0}, s6 = {0}, s7 = {0};
    for (size_t i = 0; i + 8 <= vectors; i += 8) {
        s0 += data[i], s1 += data[i + 1], s2 += data[i + 2], s3 += data[i + 3];
        s4 += data[i + 4], s5 += data[i + 5], s6 += data[i + 6], s7 += data[i + 7];
    }
    vec sum = s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7;
    float total = 0;
    for (int i = 0; i < LANES; i++) total += sum[i];
    return total;
}

static void *work(void *argument) {
    job *j = argument;
    vec *data = NULL;
    size_t repeats = 1;
    if (j->kind) {
        data = aligned_alloc(4096, j->count);
        if (!data) exit(1);
        memset(data, 0, j->count);
        repeats = j->count < ((size_t)32 << 20) ? ((size_t)32 << 20) / j->count : 1;
    }
    for (int i = 0; i < BURSTS; i++) {
        pthread_barrier_wait(j->barrier);
        j->begin[i] = now();
        if (j->kind)
            for (size_t r = 0; r < repeats; r++) {
                j->sink += read_all(data, j->count / BYTES);
                __asm__ volatile("" ::: "memory");
            }
        else
            j->sink += multiply_add(j->count, j->sink);
        j->end[i] = now();
    }
    free(data);
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 2 ? atoi(argv[2]) : 0;
    int reading = argc > 1 && !strcmp(argv[1], "read");
    if (threads < 1 || threads > 1024) return 2;
    size_t count = 1000000;
    if (reading) {
        int megabytes = argc > 3 ? atoi(argv[3]) : 256;
        count = megabytes > 0 ? (size_t)megabytes << 20 : (size_t)1 << 19;
    }
    job *jobs = calloc((size_t)threads, sizeof *jobs);
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    pthread_barrier_t barrier;
    if (!jobs || !ids || pthread_barrier_init(&barrier, NULL, (unsigned)threads)) return 1;
    for (int i = 0; i < threads; i++) {
        jobs[i].kind = reading, jobs[i].count = count, jobs[i].barrier = &barrier;
        if (pthread_create(&ids[i], NULL, work, &jobs[i])) return 1;
    }
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    double best = 1e30;
    float sink = 0;
    for (int b = 0; b < BURSTS; b++) {
        double begin = jobs[0].begin[b], end = jobs[0].end[b];
        for (int i = 1; i < threads; i++) {
            if (jobs[i].begin[b] < begin) begin = jobs[i].begin[b];
            if (jobs[i].end[b] > end) end = jobs[i].end[b];
        }
        if (end - begin < best) best = end - begin;
    }
    for (int i = 0; i < threads; i++) sink += jobs[i].sink;
    double amount = (double)threads * (double)count;
    if (reading)
        amount *= count < ((size_t)32 << 20) ? (double)(((size_t)32 << 20) / count) : 1.0;
    else
        amount *= 2.0 * CHAINS * LANES;
    printf("%.6g\n", amount / best);
    return sink == 12345.678f; /* keeps the results alive */
}
