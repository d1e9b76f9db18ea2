/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * reports.c: requests from the supervisor and reports to it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "object.h"

char packet[sizeof(struct request) + MAX_PACKET + 1] __attribute__((aligned(8)));
struct request *const request = (struct request *)packet;
size_t received;
int childless;
static struct rusage self_before, children_before;

/* Resource usage from here on belongs to the next command. */
void begin_usage(void)
{
    getrusage(RUSAGE_SELF, &self_before);
    getrusage(RUSAGE_CHILDREN, &children_before);
}

/* The same at the beginning of a command: children may have ended since the last one, while the shell was idle. */
void begin_usage_of_children(void)
{
    if (has_forked)
        getrusage(RUSAGE_CHILDREN, &children_before);
}

static void add_usage(struct report *report)
{
    struct rusage self, children = children_before;
    getrusage(RUSAGE_SELF, &self);
    if (has_forked)
        getrusage(RUSAGE_CHILDREN, &children);
#define MICROSECONDS(field) \
    ((self.field.tv_sec - self_before.field.tv_sec + children.field.tv_sec - children_before.field.tv_sec) * 1000000LL \
     + self.field.tv_usec - self_before.field.tv_usec + children.field.tv_usec - children_before.field.tv_usec)
    report->user_us = MICROSECONDS(ru_utime);
    report->system_us = MICROSECONDS(ru_stime);
    /* The kernel keeps one maximum over all children; it is this command's if it has grown. */
    int grown = children.ru_maxrss > children_before.ru_maxrss;
    report->max_rss_kib = grown && children.ru_maxrss > self.ru_maxrss ? children.ru_maxrss : self.ru_maxrss;
    self_before = self;
}

/* With a descriptor, unless it is negative. */
int try_report_with(uint32_t kind, int status, uint32_t how, int fd)
{
    struct report report = { .magic = MAGIC, .kind = kind, .status = status, .how = how };
    report.sequence = kind == READY ? 0 : request->sequence;
    if (kind == DONE)
        add_usage(&report);
    report.childless = kind == DONE && childless;
    struct iovec part = { &report, sizeof report };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } ancillary;
    if (fd >= 0) {
        message.msg_control = &ancillary;
        message.msg_controllen = sizeof ancillary;
        ancillary.header.cmsg_level = SOL_SOCKET;
        ancillary.header.cmsg_type = SCM_RIGHTS;
        ancillary.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&ancillary.header), &fd, sizeof fd);
    }
    while (sendmsg(control, &message, MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            return -1;
    return 0;
}

int try_report(uint32_t kind, int status, uint32_t how)
{
    return try_report_with(kind, status, how, -1);
}

void send_report(uint32_t kind, int status, uint32_t how)
{
    if (try_report(kind, status, how) < 0)
        _exit(125);
}

static int wanted_fds(void)
{
    int body = request->flags & IN_FILE ? 1 : 0;
    switch (request->kind) {
    case RUN:
        return 3 + body;
    case FORK:
        return request->flags & AHEAD ? 1 : 4 + body + (request->flags & HAS_CGROUP ? 1 : 0);
    default:
        return 1;
    }
}

/* Waits for a request. Returns the number of descriptors, which are in `fds`. */
int receive(int fds[MAX_FDS])
{
    for (;;) {
        union {
            struct cmsghdr align;
            char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
        } ancillary;
        struct iovec part = { packet, sizeof packet - 1 };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &ancillary,
                                  .msg_controllen = sizeof ancillary };
        ssize_t length = recvmsg(control, &message, 0);
        if (length < 0 && errno == EINTR)
            continue;
        if (length <= 0) { /* disconnected: the shell exits, as at the end of its input */
            close(control); /* its state is not needed */
            stdio_to_null();
            exit_shell(last_command_exit_value);
        }
        int count = 0;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        if (header && header->cmsg_type == SCM_RIGHTS) {
            count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(fds, CMSG_DATA(header), count * sizeof(int));
        }
        packet[length] = '\0';
        received = length;
        if (length >= (ssize_t)sizeof *request && request->magic == MAGIC
            && count >= wanted_fds())
            return count;
        while (count > 0)
            close(fds[--count]);
        if (length < (ssize_t)sizeof *request || request->magic != MAGIC)
            continue;
        /* No descriptors could be received: this shell is not usable. */
        send_state(last_command_exit_value, 0);
        send_report(REFUSED, EMFILE, 0);
    }
}

