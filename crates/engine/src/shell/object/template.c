/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * template.c: a template shell forks the shells of commands.
 *
 * A fork is a child of the supervisor (CLONE_PARENT), has its own session, carries its command's tag from the start, and
 * dies with the supervisor. Values that bash stores on its own start are updated. Its memory contains no data of other
 * commands, since the template receives text only for forks, and wipes the packet afterwards.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "object.h"

/* The arguments of clone3, up to the cgroup. */
struct clone_request {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};
#define INTO_CGROUP 0x200000000ULL

static long clone_sibling(int cgroup)
{
    if (cgroup < 0)
        return syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
    struct clone_request how = { .flags = CLONE_PARENT | INTO_CGROUP, .cgroup = cgroup };
    return syscall(SYS_clone3, &how, sizeof how);
}

/* RANDOM must not return the same numbers in every command. */
static void seed_random(void)
{
    if (seedrand && seedrand32) {
        seedrand();
        seedrand32();
        return;
    }
    uint32_t seed = 0;
    char text[12];
    (void)!getrandom(&seed, sizeof seed, 0);
    snprintf(text, sizeof text, "%u", seed);
    bind_global_variable("RANDOM", text, 0);
}

int forked_ahead;

/* Values that bash stores on its start. */
void start_clock(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    shell_start_time = now.tv_sec;
    if (&shellstart)
        shellstart = now;
    /* The directory may have been replaced by another one of the same name. */
    if (the_current_working_directory)
        (void)!chdir(the_current_working_directory);
}

/* In the fork: makes it look like a shell that was just started. */
static void become_new(int socket)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor || getpid() != syscall(SYS_getpid))
        _exit(125);
    if (dup3(socket, control, O_CLOEXEC) < 0) /* in place of the template's */
        _exit(125);
    close(socket);
    set_control(control);
    shell = dollar_dollar_pid = getpid();
    shell_pgrp = getpgrp();
    begin_usage();
    seed_random();
    forked_ahead = (request->flags & AHEAD) != 0;
    start_clock();
    if (forked_ahead)
        send_report(READY, 0, 0); /* it gets its command after this: the setup here may fail */
}

/* Forks for the received command. Returns 0 in the fork, with the descriptors of the command in `fds`. */
int fork_command(int fds[MAX_FDS], int count)
{
    int cgroup = request->flags & HAS_CGROUP ? fds[count - 1] : -1;
    struct rlimit own, tag;
    int tagged = (request->flags & HAS_TAG) != 0, failed = 0;
    if (tagged) {
        failed = getrlimit(RLIMIT_RTTIME, &own);
        tag = own;
        tag.rlim_cur = request->tag;
        failed = failed || setrlimit(RLIMIT_RTTIME, &tag); /* without a tag no kill would find the fork */
    }
    long pid = failed ? -1 : clone_sibling(cgroup);
    if (pid == 0) {
        if (cgroup >= 0)
            close(cgroup);
        become_new(fds[0]);
        memmove(fds, fds + 1, (MAX_FDS - 1) * sizeof *fds);
        return 0;
    }
    int error = pid < 0 ? errno : 0;
    if (tagged && !failed)
        setrlimit(RLIMIT_RTTIME, &own);
    while (count > 0)
        close(fds[--count]);
    send_report(FORKED, pid < 0 ? -error : (int)pid, 0);
    explicit_bzero(packet, received);
    return -1;
}
