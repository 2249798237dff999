/* SPDX-License-Identifier: Apache-2.0 */
#include "core/optim/codes.h"

enum { DECADES = 7 };

/* value[0 ...] = the positive numbers but 1, ascending: of decade i the means of 2^i
 * equal parts, or of twice as many. Returns how many. */
static int fill_positive(double *value, bool is_signed)
{
    static const double scale[DECADES] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
    int n = 0;
    for (int i = 0; i < DECADES; i++) {
        const int parts = 1 << (is_signed ? i : i + 1);
        for (int k = 0; k < parts; k++)
            value[n++] = scale[i] * (0.1 + 0.9 * (k + 0.5) / parts);
    }
    return n;
}

void cadre_codes_fill(struct cadre_codes *codes, bool is_signed)
{
    double positive[256];
    const int n = fill_positive(positive, is_signed);
    int c = 0;
    for (int k = n - 1; is_signed && k >= 0; k--)
        codes->value[c++] = -positive[k];
    codes->value[c++] = 0;
    for (int k = 0; k < n; k++)
        codes->value[c++] = positive[k];
    codes->value[c] = 1;
    for (c = 0; c < 255; c++)
        codes->middle[c] = (codes->value[c] + codes->value[c + 1]) / 2;
}
