/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/powercap.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOT "/sys/class/powercap"
#define UNKNOWN_LIMIT_W 1000.0 /* more than any package takes for long */
#define RESET_SLACK_S 0.1 /* a reading may be as old as the one before was new */
enum { CONSTRAINTS = 3 };

/* The first reason counts. */
static void explain(struct cadre_powercap *powercap, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void explain(struct cadre_powercap *powercap, const char *format, ...)
{
    va_list ap;
    if (*powercap->why)
        return;
    va_start(ap, format);
    vsnprintf(powercap->why, sizeof powercap->why, format, ap);
    va_end(ap);
}

/* The first line of the zone's file; false with errno where it cannot be read. */
static bool read_line(const struct cadre_powercap *powercap, int zone, const char *name,
                      char *line, int size)
{
    char path[sizeof powercap->root + 64];
    snprintf(path, sizeof path, "%s/intel-rapl:%d/%s", powercap->root, zone, name);
    errno = 0;
    FILE *file = fopen(path, "re");
    bool read = file && fgets(line, size, file);
    int why = errno;
    if (file)
        fclose(file);
    errno = why;
    return read;
}

static bool read_number(const struct cadre_powercap *powercap, int zone,
                        const char *name, uint64_t *out)
{
    char line[64], *end;
    if (!read_line(powercap, zone, name, line, sizeof line))
        return false;
    *out = strtoull(line, &end, 10);
    if (end != line)
        return true;
    errno = EINVAL;
    return false;
}

static void explain_file(struct cadre_powercap *powercap, int zone, const char *name)
{
    const int why = errno;
    explain(powercap, "'%.120s/intel-rapl:%d/%s': %s", powercap->root, zone, name,
            why == EACCES || why == EPERM ? "only root may read it"
            : why == 0                    ? "it is empty"
                                          : strerror(why));
}

/* Power limits hold over seconds, so more is possible for a moment. */
static double limit_of(const struct cadre_powercap *powercap, int zone)
{
    static const char *const kinds[] = {"power_limit_uw", "max_power_uw"};
    uint64_t most = 0, value;
    for (int i = 0; i < CONSTRAINTS; i++)
        for (int k = 0; k < 2; k++) {
            char name[48];
            snprintf(name, sizeof name, "constraint_%d_%s", i, kinds[k]);
            if (read_number(powercap, zone, name, &value) && value > most)
                most = value;
        }
    return most > 0 ? 2e-6 * (double)most : UNKNOWN_LIMIT_W;
}

/* A package with its first reading. False where it is another kind of zone, or cannot
 * be read, which `why` then says. */
static bool take_package(struct cadre_powercap *powercap, int zone,
                         struct cadre_powercap_package *out)
{
    char name[64];
    *out = (struct cadre_powercap_package){.zone = zone};
    if (!read_line(powercap, zone, "name", name, sizeof name)) {
        explain_file(powercap, zone, "name");
        return false;
    }
    if (strncmp(name, "package", strlen("package")) != 0)
        return false;
    if (!read_number(powercap, zone, "max_energy_range_uj", &out->range_uj)) {
        explain_file(powercap, zone, "max_energy_range_uj");
        return false;
    }
    if (!read_number(powercap, zone, "energy_uj", &out->last_uj)) {
        explain_file(powercap, zone, "energy_uj");
        return false;
    }
    out->limit_w = limit_of(powercap, zone);
    return true;
}

/* N of "intel-rapl:N"; -1 for anything else. */
static int zone_of(const char *name)
{
    static const char prefix[] = "intel-rapl:";
    const size_t len = sizeof prefix - 1;
    char *end;
    if (strncmp(name, prefix, len) != 0 || !isdigit((unsigned char)name[len]))
        return -1;
    long zone = strtol(name + len, &end, 10);
    return *end == '\0' && zone <= INT_MAX ? (int)zone : -1;
}

static void find_packages(struct cadre_powercap *powercap)
{
    DIR *dir = opendir(powercap->root);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry;
         entry = readdir(dir)) {
        struct cadre_powercap_package package;
        int zone = zone_of(entry->d_name);
        if (zone < 0 || !take_package(powercap, zone, &package))
            continue;
        if (powercap->n == CADRE_POWERCAP_PACKAGES)
            explain(powercap, "'%.120s' has more than %d packages", powercap->root,
                    CADRE_POWERCAP_PACKAGES);
        else
            powercap->package[powercap->n++] = package;
    }
    if (dir)
        closedir(dir);
}

void cadre_powercap_open(struct cadre_powercap *powercap, const char *root,
                         double now_s)
{
    const char *named = getenv("CADRE_POWERCAP");
    *powercap = (struct cadre_powercap){.last_s = now_s};
    if (!root)
        root = named && *named ? named : ROOT;
    snprintf(powercap->root, sizeof powercap->root, "%s", root);
    find_packages(powercap);
    if (*powercap->why) /* a part of the machine would be taken for all of it */
        powercap->n = 0;
    if (powercap->n == 0)
        explain(powercap,
                "'%.120s' has no energy counter of a processor (RAPL), as in most "
                "virtual machines and containers",
                powercap->root);
}

/* Joules of one package since its last reading. */
static double read_package(struct cadre_powercap *powercap,
                           struct cadre_powercap_package *package, double passed_s)
{
    uint64_t now, then = package->last_uj, used;
    if (!read_number(powercap, package->zone, "energy_uj", &now)) {
        explain_file(powercap, package->zone, "energy_uj");
        return NAN;
    }
    package->last_uj = now;
    if (package->limit_w * passed_s >= 1e-6 * (double)package->range_uj) {
        explain(powercap,
                "the counter of package %d may have begun again more than once in the "
                "%.0f s between two readings",
                package->zone, passed_s);
        return NAN;
    }
    used = now >= then ? now - then : package->range_uj - then + now;
    if (now < then &&
        (then > package->range_uj ||
         1e-6 * (double)used > package->limit_w * (passed_s + RESET_SLACK_S))) {
        explain(powercap, "the counter of package %d went back", package->zone);
        return NAN;
    }
    return 1e-6 * (double)used;
}

double cadre_powercap_read(struct cadre_powercap *powercap, double now_s)
{
    const double passed_s = now_s - powercap->last_s;
    double joules = 0;
    powercap->last_s = now_s;
    for (int i = 0; i < powercap->n; i++)
        joules += read_package(powercap, &powercap->package[i], passed_s);
    return powercap->n > 0 ? joules : (double)NAN;
}
