/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/student.h"

#include <math.h>

enum { MOST_DEGREES = 100000, HALVINGS = 200 };

double cadre_student_within(double t, int degrees)
{
    const double theta = atan(t / sqrt(degrees));
    const double cosine = cos(theta), square = cosine * cosine;
    const int odd = degrees % 2;
    double term = odd ? cosine : 1, sum = degrees == 1 ? 0 : term;
    for (int k = odd ? 3 : 2; k < degrees; k += 2) {
        term *= square * (k - 1) / k;
        sum += term;
    }
    return odd ? (theta + sin(theta) * sum) * M_2_PI : sin(theta) * sum;
}

/* By bisection between 1.9, below the normal distribution's 1.96, and 13, above the
 * 12.7 of one degree. */
double cadre_student_quantile(int degrees)
{
    double low = 1.9, high = 13;
    if (degrees < 1)
        return NAN;
    degrees = degrees < MOST_DEGREES ? degrees : MOST_DEGREES;
    for (int i = 0; i < HALVINGS && high - low > 1e-12; i++) {
        double middle = (low + high) / 2;
        if (cadre_student_within(middle, degrees) < 0.95)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

double cadre_student_mean(const double *values, size_t n, double *half)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    const double mean = n > 0 ? sum / (double)n : (double)NAN;
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    *half = n < 2 ? (double)NAN
                  : cadre_student_quantile((int)(n - 1)) *
                        sqrt(squares / (double)(n - 1) / (double)n);
    return mean;
}
