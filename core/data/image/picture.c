/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/image/picture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

cadre_status cadre_picture_init(const char *path, struct cadre_picture *out,
                                struct cadre_error *err)
{
    static const unsigned char png[] = {0x89, 'P', 'N', 'G'}, jpeg[] = {0xff, 0xd8};
    unsigned char head[sizeof png] = {0};
    cadre_status rc;
    FILE *file = fopen(path, "rb");
    if (!file)
        return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot open \"%s\"", path);
    const size_t n = fread(head, 1, sizeof head, file);
    rewind(file);
    if (n == sizeof png && memcmp(head, png, sizeof png) == 0)
        rc = cadre_picture_png(file, path, out, err);
    else if (n >= sizeof jpeg && memcmp(head, jpeg, sizeof jpeg) == 0)
        rc = cadre_picture_jpeg(file, path, out, err);
    else
        rc = cadre_fail(err, CADRE_E_INVALID,
                        "\"%s\": expected a PNG or JPEG file, found neither's first "
                        "bytes; remove it or convert it",
                        path);
    fclose(file);
    return rc;
}

void cadre_picture_fini(struct cadre_picture *picture)
{
    free(picture->bytes);
    memset(picture, 0, sizeof *picture);
}
