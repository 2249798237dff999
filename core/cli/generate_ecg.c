/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cli/generate_ecg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/data/dataset.h"
#include "core/data/wfdb/ecg_quantise.h"

static cadre_status window_of(const char *prompt, uint64_t windows, uint64_t *index,
                              struct cadre_error *err)
{
    char *end = NULL;
    *index = 0;
    if (windows == 0)
        return cadre_fail(err, CADRE_E_INVALID,
                          "there is no validation window to begin with; set "
                          "data.valid_records or data.valid_fraction");
    if (!prompt || !*prompt)
        return CADRE_OK;
    errno = 0;
    *index = strtoull(prompt, &end, 10);
    if (errno || *end || *prompt == '-' || *index >= windows)
        return cadre_fail(err, CADRE_E_INVALID,
                          "--prompt '%s': of ECG data expected a validation window, "
                          "0 to %llu, whose first half is continued",
                          prompt, (unsigned long long)windows - 1);
    return CADRE_OK;
}

cadre_status cadre_generate_ecg_prompt(const struct cadre_spec *spec,
                                       const char *prompt, size_t more, int32_t **ids,
                                       size_t *n, struct cadre_error *err)
{
    const struct cadre_dataset_info *info = &spec->data_info;
    const size_t window = (size_t)info->seq_len;
    uint64_t index;
    CADRE_TRY(window_of(prompt, info->valid_samples, &index, err));
    int32_t *inputs = cadre_calloc(window + more, sizeof *inputs);
    if (!inputs)
        return cadre_no_memory(err, "the prompt");
    cadre_status rc =
        cadre_dataset_sample(spec->data, CADRE_SPLIT_VALID, index, inputs, NULL, NULL);
    if (rc != CADRE_OK) {
        free(inputs);
        return cadre_fail(err, rc, "cannot read validation window %llu: %s",
                          (unsigned long long)index, cadre_strerror(rc));
    }
    *ids = inputs;
    *n = window / 2 > 0 ? window / 2 : 1;
    return CADRE_OK;
}

cadre_status cadre_generate_ecg_put(const struct cadre_spec *spec, int32_t token,
                                    struct cadre_error *err)
{
    const struct cadre_config_data *data = &spec->config.data;
    double mv = cadre_ecg_mv((uint16_t)token, data->range_mv, data->levels);
    if (printf("%.4f\n", mv) < 0 || fflush(stdout) != 0)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write to stdout");
    return CADRE_OK;
}
