/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/readers.h"

#include "core/report/run_data.h"

/* A run's metrics.jsonl, summary.json and config.ini, or bench.json in the place of the
 * first, as its folder has them. */
void fuzz_run_folder(const uint8_t *data, size_t size)
{
    struct cadre_run_data run = {0};
    struct cadre_error err = {0};
    const uint8_t *summary, *config;
    size_t n, m;
    char out[64];
    const size_t first = fuzz_split(data, size, &summary, &n);
    const size_t second = fuzz_split(summary, n, &config, &m);
    if (first > 0 && data[0] == '{' && first < size && data[1] == '\n') {
        fuzz_file("bench.json", data, first);
        fuzz_remove("metrics.jsonl");
    } else {
        fuzz_file("metrics.jsonl", data, first);
        fuzz_remove("bench.json");
    }
    if (second > 0)
        fuzz_file("summary.json", summary, second);
    else
        fuzz_remove("summary.json");
    fuzz_file("config.ini", config, m);
    if (cadre_run_data_read(fuzz_file(NULL, NULL, 0), &run, &err) == CADRE_OK) {
        cadre_run_data_state(&run, out, sizeof out);
        cadre_run_data_machine(&run, out, sizeof out);
        cadre_run_data_number(&run, "ranks");
        cadre_run_data_largest(&run, "peak_bytes");
    }
    cadre_run_data_fini(&run); /* after a failure too */
}
