/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * descriptors.c: the socket, which a command may close, and the standard streams.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "object.h"

int control = -1;
int high;
struct hello hello;
int has_forked;
static struct stat control_is; /* to detect that a command has replaced it */

/* Maximum time for the supervisor to reconnect. It tries every few milliseconds. */
enum { RECONNECT_TIMEOUT_MS = 10000 };

int move_up(int fd)
{
    int up = fcntl(fd, F_DUPFD_CLOEXEC, high);
    if (up < 0)
        return fd;
    close(fd);
    return up;
}

static int same(int fd, const struct stat *is)
{
    struct stat now;
    return fstat(fd, &now) == 0 && now.st_ino == is->st_ino && now.st_dev == is->st_dev;
}

int has_control(void)
{
    return same(control, &control_is);
}

void set_control(int fd)
{
    control = fd;
    if (fstat(control, &control_is) < 0)
        _exit(125);
}

/* Listens for the supervisor, which detects that the socket is closed. The name was secret until now, and connections of
 * other processes are refused. */
static int connection_of_supervisor(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path + 1, hello.name, hello.name_length);
    socklen_t length = offsetof(struct sockaddr_un, sun_path) + 1 + hello.name_length;
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) < 0 || listen(listener, 64) < 0)
        return -1;
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        long left = RECONNECT_TIMEOUT_MS - (now.tv_sec - begun.tv_sec) * 1000;
        struct pollfd waiting = { .fd = listener, .events = POLLIN };
        if (left <= 0 || (poll(&waiting, 1, left) < 0 && errno != EINTR))
            break;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        struct ucred peer;
        socklen_t size = sizeof peer;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == supervisor) {
            close(listener);
            return fd;
        }
        close(fd);
    }
    close(listener);
    return -1;
}

/* A command may close or replace any descriptor (`exec 400>&-`). So this is called after each command. */
void check_control(void)
{
    if (has_control())
        return;
    int fd = connection_of_supervisor();
    if (fd < 0)
        _exit(125);
    set_control(move_up(fd));
}

/* Between commands there are no standard streams: those of the next one get these numbers on arrival. This needs no call,
 * and no more descriptors than a command that has lowered their limit leaves. */
void close_stdio(void)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 0, 2, 0) == 0)
        return;
#endif
    for (int fd = 0; fd < 3; fd++)
        close(fd);
}

void stdio_to_null(void)
{
    close_stdio();
    int null = open("/dev/null", O_RDWR);
    for (int fd = null + 1; null >= 0 && fd < 3; fd++)
        dup2(null, fd);
}

/* A fork of the shell does not need the socket, and would hide from the supervisor that the shell's end is closed. */
static void close_control(void)
{
    if (control >= 0 && has_control())
        close(control);
    control = -1;
}

static void note_fork(void)
{
    has_forked = 1;
}

void forget_control_in_forks(void)
{
    pthread_atfork(NULL, note_fork, close_control);
}
