/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose ranks are processes: comm_rank CASE SIZE TIMEOUT_S ARG. It launches
 * itself, prints the outcome as "STATUS TEXT" and "lost N, asked B" below it, and exits
 * 0; as a rank it runs the case. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status_slot.h"
#include "tests/comm/comm_cases.h"

static int run_rank(int rank, int fd, char **argv)
{
    struct cadre_local_segment *segment;
    struct cadre_error err;
    if (cadre_local_segment_open(fd, &segment, &err) != CADRE_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    cadre_status rc = comm_case(argv[1])(argv[4], rank, segment);
    cadre_local_segment_close(segment);
    return rc == CADRE_OK          ? 0
           : rc == CADRE_E_INVALID ? 2
           : rc == CADRE_E_STOPPED ? 4
                                   : 1;
}

int main(int argc, char **argv)
{
    bool is_child;
    int rank, size, fd;
    struct cadre_error err = {.code = CADRE_OK};
    if (argc != 5 || !comm_case(argv[1]))
        return 2;
    if (cadre_launch_child(&is_child, &rank, &size, &fd, &err) != CADRE_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    if (is_child) {
        int status = run_rank(rank, fd, argv);
        cadre_status_finished(cadre_status_current());
        return status;
    }
    struct cadre_local_config config = {.size = atoi(argv[2]),
                                        .timeout_s = atof(argv[3])};
    struct cadre_launch_end end;
    cadre_status rc = cadre_launch_processes(&config, NULL, argv, &end, &err);
    printf("%d %s\nlost %d, asked %d\n", rc, err.text, end.lost, end.asked);
    return 0;
}
