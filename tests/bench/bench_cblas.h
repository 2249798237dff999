/* SPDX-License-Identifier: Apache-2.0 */
/* cblas_sgemm of a shared object that the user names. For benches: what fails ends the
 * program. */
#ifndef CADRE_TESTS_BENCH_CBLAS_H
#define CADRE_TESTS_BENCH_CBLAS_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* of cblas.h: row-major, a number for each transposition */
enum { CBLAS_ROWS = 101, CBLAS_AS_IS = 111, CBLAS_TRANSPOSED = 112 };
typedef void cblas_sgemm_run(int order, int ta, int tb, int m, int n, int k,
                             float alpha, const float *a, int lda, const float *b,
                             int ldb, float beta, float *c, int ldc);

static inline cblas_sgemm_run *cblas_open(const char *path, int threads)
{
    static const char *const setters[] = {"openblas_set_num_threads",
                                          "MKL_Set_Num_Threads",
                                          "bli_thread_set_num_threads"};
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cblas_sgemm_run *run = NULL;
    if (handle)
        *(void **)&run = dlsym(handle, "cblas_sgemm"); /* as POSIX has it */
    if (!run) {
        fprintf(stderr, "%s: %s\n", path, dlerror());
        exit(1);
    }
    for (size_t i = 0; i < sizeof setters / sizeof *setters; i++) {
        void (*set)(int);
        *(void **)&set = dlsym(handle, setters[i]);
        if (set)
            set(threads);
    }
    return run;
}

#endif
