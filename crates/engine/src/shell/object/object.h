/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * object.h: the protocol, and declarations shared by the files of the object.
 */
#ifndef SANDCRAB_OBJECT_H
#define SANDCRAB_OBJECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "bash.h"

/* --- the protocol ----------------------------------------------------------------------------- */

/* Follows the `enable` line on standard input. */
struct hello {
    uint32_t magic;
    int32_t control, object; /* descriptors: the socket, and this object's file */
    uint32_t name_length;
    char name[64]; /* the abstract name to listen at when a command has closed the socket */
    uint32_t late_length; /* number of bytes that follow: postponed changes to the environment */
};

/* FORK is a RUN with ONCE in a fork of this shell: its first descriptor is the fork's control socket, then those of
 * the RUN, then the cgroup. With AHEAD there is only the first: the fork waits for its RUN. */
enum { RUN = 1, SNAPSHOT = 2, FORK = 3 };
enum { ONCE = 1, IN_FILE = 2, HAS_CWD = 4, SET_STATUS = 8, NO_HURRY = 16, HAS_TAG = 32, HAS_CGROUP = 64, AHEAD = 128, IF_CHANGED = 256 };

/* A fork writes a SNAPSHOT to its descriptor. With IF_CHANGED, if the state is still that of the last one, or the initial
 * one, the shell writes a line that says so instead. */

/* One packet. After it: the directory if there is one, the changes to the environment ("+NAME=value"
 * or "-NAME"), an empty string, the text; each ends with a NUL. With IN_FILE they are in a
 * descriptor after the first three instead. */
struct request {
    uint32_t magic, kind, flags, sequence;
    int32_t status;
    uint32_t length;
    uint64_t tag; /* of a fork, if HAS_TAG: its soft RLIMIT_RTTIME */
};

/* STATE has a descriptor of the shell's state, to be used if the shell ends before its next report; without one it
 * revokes the last one. FORKED has the process id in `status`, or a negative errno. */
enum { READY = 1, DONE = 2, REFUSED = 3, STATE = 4, FORKED = 5 };
enum { NORMAL = 0, EXIT = 1, INTERRUPTED = 2, SIGNALED = 3 };

struct report {
    uint32_t magic, kind, sequence;
    int32_t status;
    uint32_t how, childless;
    uint64_t user_us, system_us, max_rss_kib;
};

enum { MAGIC = 0x42415244, MAX_PACKET = 64 << 10, MAX_FDS = 6 };

/* --- shared state ------------------------------------------------------------------------------- */

extern pid_t shell, supervisor; /* a fork of the shell has another pid than `shell` */
extern int control;             /* the socket */
extern int high;                /* the lowest descriptor of the object */
extern int is_session;          /* a command has run that is not the only one */
extern int childless;           /* the shell is about to exit and has no children */
extern struct hello hello;
extern volatile sig_atomic_t running;   /* a command is running */
extern volatile sig_atomic_t unwinding; /* INTERRUPTED or SIGNALED: why the command is being unwound */
extern volatile sig_atomic_t fatal;     /* the signal, if SIGNALED */
extern char packet[sizeof(struct request) + MAX_PACKET + 1];
extern struct request *const request;
extern size_t received; /* bytes of the packet */
extern int old_directory;

/* --- descriptors.c ------------------------------------------------------------------------------ */

int move_up(int fd);
int has_control(void);
void set_control(int fd);
void check_control(void);
void close_stdio(void);
void stdio_to_null(void);
void forget_control_in_forks(void);

extern int has_forked; /* the shell has had a child */

/* --- reports.c ---------------------------------------------------------------------------------- */

void begin_usage(void);
void begin_usage_of_children(void);
int try_report(uint32_t kind, int status, uint32_t how);
int try_report_with(uint32_t kind, int status, uint32_t how, int fd);
void send_report(uint32_t kind, int status, uint32_t how);
int receive(int fds[MAX_FDS]);

/* --- signals.c ---------------------------------------------------------------------------------- */

void handle_interrupt(void (*handler)(int));
void on_interrupt(int signal);
extern int signals_changed; /* bash may have replaced our handlers */
void handle_signals(void);
void handle_session_signals(void);
void forget_early_signal(void);
void default_signals(void);

/* --- changes.c ---------------------------------------------------------------------------------- */

char *apply_changes(char *body, uint32_t flags);
void put_back(void);
void leave_functions(void);
void undo_forgotten_calls(void);
char *map_body(int fd);

/* --- snapshot.c --------------------------------------------------------------------------------- */

int is_one_of(const char *name, const char *const *names);
int is_own_variable(const char *name);
int is_exported_own_variable(const struct variable *);
void take_snapshot(int fd, uint32_t flags);
void mark_saved(void);
/* What bash has already done when it replaces the shell: saved the traps, decremented SHLVL. */
enum { TRAPS_ASIDE = 1, COUNTED_DOWN = 2 };
void send_state(int status, int done);
void leave_strict_modes(void);

/* --- text.c ------------------------------------------------------------------------------------- */

void begin_text(char *text);
void run_text(void);
int text_status(void);
void discard_command(void);

/* --- exec.c ------------------------------------------------------------------------------------- */

void intercept_exec(void);
void watch_for_exec(void);

/* --- template.c --------------------------------------------------------------------------------- */

/* Whether this shell was forked ahead of its command. */
extern int forked_ahead;
void start_clock(void);
int fork_command(int fds[MAX_FDS], int count);

/* --- fingerprint.c ------------------------------------------------------------------------------ */

uint64_t state_fingerprint(void);

#endif
