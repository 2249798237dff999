/* SPDX-License-Identifier: Apache-2.0 */
#include "core/check/kit/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"

#define MOST_SWEPT 256

#define PROGRAM "/proc/self/exe"
#define POLL_NS 2000000

void cadre_check_process_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL);
}

static void limit(int what, long value)
{
    struct rlimit most = {.rlim_cur = (rlim_t)value, .rlim_max = (rlim_t)value};
    setrlimit(what, &most);
}

/* In the child: only calls that are safe after a fork. Returns where exec fails. */
static void become(const struct cadre_check_process *process, pid_t parent)
{
    sigset_t none;
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out = open(process->output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC,
                   0600);
    if (in < 0 || out < 0 || dup2(in, STDIN_FILENO) < 0 ||
        dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return;
    if (process->leads && setpgid(0, 0) != 0)
        return;
    /* freed memory is counted as free at once, and is not as it was; how the process
     * ends is seen from here, not told by a supervisor */
    if (process->leads) {
        setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.perturb=165",
               1);
        setenv("CADRE_SUPERVISE", "no", 1);
    } else {
        unsetenv("GLIBC_TUNABLES");
        unsetenv("CADRE_SUPERVISE");
    }
    limit(RLIMIT_CORE, 0);
    if (process->file_kib > 0)
        limit(RLIMIT_FSIZE, process->file_kib << 10);
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* a parent that is already gone sends no death signal */
    if (getppid() == parent)
        execv(process->program ? process->program : PROGRAM, process->argv);
}

cadre_status cadre_check_process_start(struct cadre_check_process *process,
                                       struct cadre_error *err)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        become(process, parent);
        _exit(127);
    }
    if (pid < 0)
        return cadre_fail_errno(err, CADRE_E_RESOURCE, errno,
                                "cannot start a process of the kit");
    if (process->leads)
        setpgid(pid, pid); /* whoever of the two comes first */
    process->pid = pid;
    process->begin_s = cadre_now_s();
    process->timed_out = false;
    process->status = -1;
    process->signal = 0;
    process->cpu_s = 0;
    return CADRE_OK;
}

static void kill_all(const struct cadre_check_process *process)
{
    if (process->leads)
        kill(-process->pid, SIGKILL);
    kill(process->pid, SIGKILL);
}

static double seconds(const struct timeval *t)
{
    return (double)t->tv_sec + 1e-6 * (double)t->tv_usec;
}

static bool reap(struct cadre_check_process *process, int flags)
{
    struct rusage usage;
    int how = 0;
    pid_t done;
    do
        done = wait4(process->pid, &how, flags, &usage);
    while (done < 0 && errno == EINTR);
    if (done == 0)
        return false;
    if (process->leads)
        kill(-process->pid, SIGKILL);
    process->pid = 0;
    if (done < 0)
        return true;
    if (WIFEXITED(how))
        process->status = WEXITSTATUS(how);
    else
        process->signal = WTERMSIG(how);
    process->cpu_s = seconds(&usage.ru_utime) + seconds(&usage.ru_stime);
    return true;
}

bool cadre_check_process_ended(struct cadre_check_process *process)
{
    if (!process->pid || reap(process, WNOHANG))
        return true;
    if (!process->timed_out && process->limit_s > 0 &&
        cadre_now_s() - process->begin_s > process->limit_s) {
        process->timed_out = true;
        kill_all(process);
    }
    return false;
}

void cadre_check_process_kill(struct cadre_check_process *process)
{
    if (!process->pid)
        return;
    kill_all(process);
    reap(process, 0);
}

cadre_status cadre_check_process_run(struct cadre_check_process *process,
                                     struct cadre_error *err)
{
    const struct timespec tick = {.tv_nsec = POLL_NS};
    CADRE_TRY(cadre_check_process_start(process, err));
    while (!cadre_check_process_ended(process))
        nanosleep(&tick, NULL);
    return CADRE_OK;
}

size_t cadre_check_process_children(pid_t parent, pid_t *out, size_t most)
{
    char path[64], text[4096] = "", *at = text, *end = text;
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    for (long pid = strtol(at, &end, 10); n < most && end > at && pid > 0;
         pid = strtol(at, &end, 10)) {
        out[n++] = (pid_t)pid;
        at = end;
    }
    return n;
}

static int sweep_once(const pid_t *running, size_t n)
{
    pid_t child[MOST_SWEPT];
    size_t n_children = cadre_check_process_children(getpid(), child, MOST_SWEPT);
    int left = 0;
    for (size_t k = 0; k < n_children; k++) {
        bool known = false;
        for (size_t i = 0; i < n; i++)
            known |= running[i] == child[k];
        if (known)
            continue;
        left++;
        kill(child[k], SIGKILL);
        waitpid(child[k], NULL, 0);
    }
    return left;
}

int cadre_check_process_sweep(const pid_t *running, size_t n)
{
    int left = 0, more;
    /* the children of a child that was killed are this process's now */
    while ((more = sweep_once(running, n)) > 0)
        left += more;
    return left;
}

void cadre_check_process_tail(const char *output, char *out, size_t bytes)
{
    FILE *file = fopen(output, "re");
    size_t got = 0;
    out[0] = 0;
    if (!file)
        return;
    if (fseek(file, -(long)(bytes - 1), SEEK_END) != 0)
        rewind(file);
    got = fread(out, 1, bytes - 1, file);
    fclose(file);
    while (got && (out[got - 1] == '\n' || out[got - 1] == ' '))
        got--;
    out[got] = 0;
    for (char *at = out; *at; at++)
        if ((unsigned char)*at < ' ' && *at != '\n')
            *at = '?';
}
