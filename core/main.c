/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: one function per command, exit codes in one place. */
#include "core/cli/cli.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "core/device/device.h"
#include "core/launch/supervisor.h"

/* A standard stream that the caller closed must not become a file of the run. Writing
 * to what stands in for it fails, as it should. */
static void fill_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

/* Without a text, the launcher of this rank has reported the error. */
static void report(const struct cadre_status_page *page, const char *text)
{
    if (!text[0])
        return;
    if (page->shared)
        cadre_status_page_say(page, text);
    else
        fprintf(stderr, "cadre: %s\n", text);
}

int main(int argc, char **argv)
{
    struct cadre_status_page page;
    struct cadre_error err = {0};
    int status;
    fill_standard_streams();
    cadre_device_quiet();
    /* a file that reaches `ulimit -f` is an error of its write, reported like a full
     * disk
     */
    signal(SIGXFSZ, SIG_IGN);
    if (cadre_supervisor_split(&page, &status))
        return status;
    cadre_status rc = cadre_cli(argc, argv, &err);
    if (rc != CADRE_OK)
        report(&page, err.text);
    cadre_status_finished(cadre_status_current());
    return cadre_cli_exit_code(rc);
}
