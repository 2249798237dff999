/* SPDX-License-Identifier: Apache-2.0 */
/* An observer that does to its process, in bind, what CADRE_TEST_ROGUE says: `cadre
 * check` has to come to its end all the same. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cadre/helpers.h>

struct cadre_self {
    int unused;
};

static cadre_status create(const struct cadre_create *at, struct cadre_self **out)
{
    return cadre_self_create(at->host, NULL, sizeof **out, out);
}

static void destroy(struct cadre_self *s, const struct cadre_end *end)
{
    (void)end;
    free(s);
}

static cadre_status plan(struct cadre_self *s, const struct cadre_plan *p)
{
    (void)s;
    return p->use_axis(p->h, p->axis, CADRE_BATCH_SAME);
}

static void *idle(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void close_all(void)
{
    for (int fd = 0; fd < 1024; fd++)
        close(fd);
}

/* Children in a session of their own outlive their group. */
static void fork_away(void)
{
    for (int i = 0; i < 3; i++)
        if (fork() == 0) {
            setsid();
            idle(NULL);
        }
}

static void leak_threads(void)
{
    pthread_t thread;
    for (int i = 0; i < 20; i++)
        pthread_create(&thread, NULL, idle, NULL);
}

static cadre_status bind(struct cadre_self *s, const struct cadre_bind *at)
{
    const char *what = getenv("CADRE_TEST_ROGUE");
    /* a page that nothing is mapped to: of NULL a sanitizer says more */
    volatile int *volatile nothing = (volatile int *)(uintptr_t)64;
    (void)s;
    (void)at;
    what = what ? what : "";
    if (strcmp(what, "segfault") == 0)
        *nothing = 1;
    else if (strcmp(what, "exit") == 0)
        exit(0);
    else if (strcmp(what, "_exit") == 0)
        _exit(0);
    else if (strcmp(what, "spin") == 0)
        idle(NULL);
    else if (strcmp(what, "stop") == 0)
        raise(SIGSTOP);
    else if (strcmp(what, "group") == 0)
        kill(0, SIGKILL);
    else if (strcmp(what, "close") == 0)
        close_all();
    else if (strcmp(what, "fork") == 0)
        fork_away();
    else if (strcmp(what, "threads") == 0)
        leak_threads();
    else if (strcmp(what, "print") == 0)
        for (int i = 0; i < 20000; i++)
            printf("ok %d - not a check\n", i);
    return CADRE_OK;
}

static cadre_status on_sync(struct cadre_self *s, const struct cadre_sync *at)
{
    (void)s;
    (void)at;
    return CADRE_OK;
}

static const struct cadre_strategy_ops ops = {
    .struct_size = sizeof ops,
    .create = create,
    .plan = plan,
    .bind = bind,
    .sync = on_sync,
    .destroy = destroy,
};

CADRE_PLUGIN(.role = CADRE_ROLE_OBSERVER, .id = "org.cadre.test.rogue",
             .version = "0.1.0", .summary = "does harm to its process", .axis = "rogue",
             .ops = &ops)
