/* SPDX-License-Identifier: Apache-2.0 */
/* MIG profiles of three boards, as `nvidia-smi mig -lgip` and -lgipp print them. */
#ifndef FAKE_NVML_LAYOUTS_H
#define FAKE_NVML_LAYOUTS_H

#define FAKE_PROFILES 8
#define FAKE_PLACES 7

/* `index` is NVML's constant, `id` the board's number of the profile. */
struct fake_profile {
    const char *name;
    unsigned index, id, slices, instances, size;
    unsigned n_starts, starts[FAKE_PLACES];
    unsigned sms, memory_mib, media;
};

struct fake_layout {
    const char *key, *name;
    unsigned long long memory_mib;
    struct fake_profile profile[FAKE_PROFILES];
};

/* what all boards share: index, id, slices, instances, memory slices and where they
 * may start */
#define FAKE_1G                                                                        \
    0, 19, 1, 7, 1, 7,                                                                 \
    {                                                                                  \
        0, 1, 2, 3, 4, 5, 6                                                            \
    }
#define FAKE_1G_ME                                                                     \
    7, 20, 1, 1, 1, 7,                                                                 \
    {                                                                                  \
        0, 1, 2, 3, 4, 5, 6                                                            \
    }
#define FAKE_1G_WIDE                                                                   \
    9, 15, 1, 4, 2, 4,                                                                 \
    {                                                                                  \
        0, 2, 4, 6                                                                     \
    }
#define FAKE_2G                                                                        \
    1, 14, 2, 3, 2, 3,                                                                 \
    {                                                                                  \
        0, 2, 4                                                                        \
    }
#define FAKE_3G                                                                        \
    2, 9, 3, 2, 4, 2,                                                                  \
    {                                                                                  \
        0, 4                                                                           \
    }
#define FAKE_4G                                                                        \
    3, 5, 4, 1, 4, 1,                                                                  \
    {                                                                                  \
        0                                                                              \
    }
#define FAKE_7G                                                                        \
    4, 0, 7, 1, 8, 1,                                                                  \
    {                                                                                  \
        0                                                                              \
    }

static const struct fake_layout fake_layouts[] = {
    {"a100-40",
     "NVIDIA A100-SXM4-40GB",
     40960,
     {{"1g.5gb", FAKE_1G, 14, 4864, 0},
      {"1g.5gb+me", FAKE_1G_ME, 14, 4864, 1},
      {"1g.10gb", FAKE_1G_WIDE, 14, 9856, 0},
      {"2g.10gb", FAKE_2G, 28, 9856, 0},
      {"3g.20gb", FAKE_3G, 42, 19968, 0},
      {"4g.20gb", FAKE_4G, 56, 19968, 0},
      {"7g.40gb", FAKE_7G, 98, 40192, 1}}},
    {"h100-80",
     "NVIDIA H100 80GB HBM3",
     81559,
     {{"1g.10gb", FAKE_1G, 16, 9984, 0},
      {"1g.10gb+me", FAKE_1G_ME, 16, 9984, 1},
      {"1g.20gb", FAKE_1G_WIDE, 26, 20096, 0},
      {"2g.20gb", FAKE_2G, 32, 20096, 0},
      {"3g.40gb", FAKE_3G, 60, 40448, 0},
      {"4g.40gb", FAKE_4G, 64, 40448, 0},
      {"7g.80gb", FAKE_7G, 132, 81152, 1}}},
    {"h200",
     "NVIDIA H200",
     143771,
     {{"1g.18gb", FAKE_1G, 16, 16384, 0},
      {"1g.18gb+me", FAKE_1G_ME, 16, 16384, 1},
      {"1g.35gb", FAKE_1G_WIDE, 26, 33024, 0},
      {"2g.35gb", FAKE_2G, 32, 33024, 0},
      {"3g.71gb", FAKE_3G, 60, 71168, 0},
      {"4g.71gb", FAKE_4G, 64, 71168, 0},
      {"7g.141gb", FAKE_7G, 132, 143360, 1}}},
};
#define FAKE_LAYOUTS (sizeof fake_layouts / sizeof *fake_layouts)

#endif
