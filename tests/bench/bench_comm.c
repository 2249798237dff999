/* SPDX-License-Identifier: Apache-2.0 */
/* all_reduce of the local communicator, threads and processes, compared with memcpy:
 *
 *   bench_comm [RANKS]
 *
 * Prints, for f32 vectors of 1 KiB to 64 MiB: time of one operation (median), algorithm
 * bandwidth (bytes of the vector over time) and its ratio to the bandwidth of memcpy
 * over the same bytes, measured by every rank at once, in the same run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/status_slot.h"
#include "core/launch/launch.h"

#define MOST (64u << 20)
#define MAX_REPEATS 1000

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, ascending);
    return v[n / 2];
}

static cadre_status run_once(struct cadre_comm *c, const void *in, void *out,
                             uint64_t count)
{
    cadre_event done;
    cadre_status rc = cadre_comm_all_reduce(c, "bench", in, out, count, CADRE_F32,
                                            CADRE_SUM, 0, &done);
    return rc == CADRE_OK ? cadre_comm_wait(c, done) : rc;
}

static cadre_status bench_size(struct cadre_comm *c, void *in, void *out,
                               uint64_t bytes)
{
    double reduce[MAX_REPEATS] = {0}, copy[MAX_REPEATS] = {0};
    uint64_t n = (256u << 20) / bytes;
    int repeats = n < 9 ? 9 : n > MAX_REPEATS ? MAX_REPEATS : (int)n;
    for (int i = -2; i < repeats; i++) {
        double began = now_s();
        CADRE_TRY(run_once(c, in, out, bytes / 4));
        if (i >= 0)
            reduce[i] = now_s() - began;
    }
    for (int i = 0; i < repeats; i++) {
        double began = now_s();
        memcpy(out, in, bytes);
        copy[i] = now_s() - began;
    }
    double t = median(reduce, repeats), m = median(copy, repeats);
    if (c->rank == 0)
        printf("%10llu B  %9.1f us  %7.3f GB/s  memcpy %7.3f GB/s  ratio %.3f\n",
               (unsigned long long)bytes, t * 1e6, (double)bytes / t * 1e-9,
               (double)bytes / m * 1e-9, m / t);
    return CADRE_OK;
}

static cadre_status bench_rank(void *arg, int rank, struct cadre_local_segment *segment)
{
    struct cadre_comm *c = NULL;
    struct cadre_error err;
    char *in = malloc(MOST), *out = malloc(MOST);
    cadre_status rc =
        in && out ? cadre_local_open(segment, rank, &c, &err) : CADRE_E_RESOURCE;
    if (rc == CADRE_OK) {
        memset(in, rank, MOST);
        memset(out, 0, MOST);
    }
    for (uint64_t bytes = 1024; rc == CADRE_OK && bytes <= MOST; bytes *= 4)
        rc = bench_size(c, in, out, bytes);
    fflush(stdout);
    if (c)
        cadre_comm_destroy(c);
    free(in);
    free(out);
    return rc;
}

static int child(int rank, int fd)
{
    struct cadre_local_segment *segment;
    if (cadre_local_segment_open(fd, &segment, NULL) != CADRE_OK)
        return 1;
    cadre_status rc = bench_rank(NULL, rank, segment);
    cadre_local_segment_close(segment);
    cadre_status_finished(cadre_status_current());
    return rc == CADRE_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct cadre_local_config config = {.size = argc > 1 ? atoi(argv[1]) : 2,
                                        .timeout_s = 60};
    struct cadre_error err = {.code = CADRE_OK};
    bool is_child;
    int rank, size, fd;
    cadre_status rc = cadre_launch_child(&is_child, &rank, &size, &fd, &err);
    if (rc == CADRE_OK && is_child)
        return child(rank, fd);
    if (rc == CADRE_OK) {
        printf("%d ranks as processes, all_reduce f32\n", config.size);
        fflush(stdout);
        rc = cadre_launch_processes(&config, NULL, argv, NULL, &err);
    }
    if (rc == CADRE_OK) {
        printf("%d ranks as threads, all_reduce f32\n", config.size);
        rc = cadre_launch_threads(&config, NULL, bench_rank, NULL, &err);
    }
    if (rc != CADRE_OK)
        fprintf(stderr, "%s\n", err.text);
    return rc == CADRE_OK ? 0 : 1;
}
