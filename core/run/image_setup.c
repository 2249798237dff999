/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run/image_setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "0.5" for every channel, or "0.49, 0.45, 0.41". */
static cadre_status parse_channels(const char *key, const char *text, int64_t channels,
                                   bool positive, double *out, struct cadre_error *err)
{
    int64_t n = 0;
    for (const char *at = text;; n++) {
        char *end;
        const double value = strtod(at, &end);
        if (end == at || !isfinite(value) || (positive && value <= 0) ||
            n == CADRE_IMAGE_CHANNELS)
            break;
        out[n] = value;
        end += strspn(end, " \t");
        if (*end == '\0' && (n == 0 || n + 1 == channels)) {
            for (int64_t c = n + 1; c < CADRE_IMAGE_CHANNELS; c++)
                out[c] = value;
            return CADRE_OK;
        }
        if (*end != ',')
            break;
        at = end + 1;
    }
    return cadre_fail(
        err, CADRE_E_INVALID,
        "data.%s = %s, expected one%s number, or one for each of the %lld "
        "channels of the images, such as 0.5",
        key, text, positive ? " positive" : "", (long long)channels);
}

/* A size that follows from the images, which the user may leave out. */
static cadre_status take_size(const struct cadre_options *options, const char *key,
                              int64_t wanted, int64_t *size, struct cadre_error *err)
{
    const char *source = cadre_options_source(options, key);
    if (strcmp(source, "default") != 0 && *size != 0 && *size != wanted)
        return cadre_fail(err, CADRE_E_INVALID,
                          "%s = %lld (%s), but these images and model.patch make it "
                          "%lld; leave the key out",
                          key, (long long)*size, source, (long long)wanted);
    *size = wanted;
    return CADRE_OK;
}

static cadre_status check_arch(const struct cadre_config *config, bool images,
                               struct cadre_error *err)
{
    const bool vit = config->model.arch == CADRE_CONFIG_VIT;
    if (vit == images)
        return CADRE_OK;
    if (images)
        return cadre_fail(
            err, CADRE_E_INVALID,
            "data.format = %s are images, which take model.arch = vit and "
            "model.head = classify",
            config->data.format);
    return cadre_fail(err, CADRE_E_INVALID,
                      "model.arch = vit takes images (data.format = idx or images), "
                      "found data.format = %s",
                      config->data.format);
}

cadre_status cadre_image_setup(const struct cadre_config *config,
                               const struct cadre_options *options,
                               const struct cadre_dataset_info *info,
                               struct cadre_model_config *model,
                               struct cadre_error *err)
{
    struct cadre_image_form *image = &model->image;
    const struct cadre_config_data *d = &config->data;
    if (!info && config->model.arch == CADRE_CONFIG_VIT)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          "model.arch = vit: this command generates text and reads no "
                          "images; use `cadre eval`");
    CADRE_TRY(check_arch(config, info && info->channels > 0, err));
    if (!info || info->channels == 0)
        return CADRE_OK;
    if (config->model.head != CADRE_CONFIG_CLASSIFY)
        return cadre_fail(err, CADRE_E_INVALID,
                          "model.head = lm, but images have classes: set model.head = "
                          "classify");
    image->channels = info->channels;
    image->height = info->height;
    image->width = info->width;
    image->nhwc = d->layout == CADRE_CONFIG_NHWC;
    CADRE_TRY(parse_channels("mean", d->mean, info->channels, false, image->mean, err));
    CADRE_TRY(parse_channels("std", d->std, info->channels, true, image->std, err));
    CADRE_TRY(take_size(options, "model.context", info->seq_len, &model->context, err));
    return take_size(options, "model.vocab", info->vocab, &model->vocab, err);
}
