/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * getter.c: lets bash take its commands from a socket.
 *
 * This program is free software: you can redistribute it and/or modify it under the terms of the GNU
 * General Public License as published by the Free Software Foundation, either version 3 of the
 * License, or (at your option) any later version. It is distributed in the hope that it will be
 * useful, but WITHOUT ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or FITNESS
 * FOR A PARTICULAR PURPOSE. See the GNU General Public License for more details.
 *
 * The object is loaded into a running bash and calls bash's own functions, so it is under bash's
 * licence. It is compiled by itself and talks to the rest of the project over a socket only.
 *
 * How it works: bash loads the object with `enable -f`. Its load function installs `next_command` as
 * the function from which bash's parser gets its characters, and then says that loading has failed: so
 * no builtin is registered (`-z nodelete` keeps the code in place). When bash wants its next character
 * it calls `next_command`, which never returns. It waits for a request, gives bash's own
 * `parse_and_execute` the text, and reports the status. Everything the text may do to get out of
 * there (`exit`, `return`, errexit, an expansion error, an interrupt) is a long jump in bash, to
 * `top_level` or to `return_catch`; both point here.
 *
 * Footprint: no variable, function, trap, option or builtin; two descriptors, both high and
 * close-on-exec. The structures below are bash's, as they have been from 4.4 to 5.3.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- bash ------------------------------------------------------------------------------------- */

struct variable {
    char *name, *value, *exportstr;
    void *dynamic_value, *assign_func;
    int attributes, context;
};
enum { ATT_EXPORTED = 0x1, ATT_ARRAY = 0x4, ATT_ASSOC = 0x40 };

struct word { char *text; int flags; };
struct word_list { struct word_list *next; struct word *word; };

/* Where the parser reads from. Type 0 is "nothing": bash then leaves descriptor 0 alone. */
extern struct {
    int type;
    char *name;
    void *location;
    int (*getter)(void);
    int (*ungetter)(int);
} bash_input;
extern int default_buffered_input;

extern sigjmp_buf top_level, return_catch;
enum { FORCE_EOF = 1, DISCARD = 2, EXITPROG = 3, ERREXIT = 4, EXITBLTIN = 6 };
enum { SEVAL_NOHIST = 0x4, SEVAL_NOFREE = 0x8, SEVAL_RESETLINE = 0x10, SEVAL_NOHISTEXP = 0x200 };

extern volatile sig_atomic_t interrupt_state;
extern int last_command_exit_value, return_catch_flag, return_catch_value, read_but_dont_execute;
extern int indirection_level, variable_context, startup_state, want_pending_command, read_from_stdin;
extern int wait_intr_flag, wait_signal_received, array_needs_making, posixly_correct, restricted;
extern int errexit_flag, evalnest, sourcelevel, xtrace_fd;
extern char *the_current_working_directory, *shell_name;
extern const char *const dist_version;

extern int parse_and_execute(char *, const char *, int);
extern void parse_and_execute_cleanup(int), top_level_cleanup(void), reset_parser(void);
extern void reset_local_contexts(void), restore_sigmask(void), exit_shell(int);
extern int run_exit_trap(void), signal_is_trapped(int);
extern void run_trap_cleanup(int), restore_default_signal(int), set_pipestatus_from_exit(int), array_flush(void *);
extern struct variable *find_variable(const char *), *find_global_variable_noref(const char *);
extern struct variable *bind_global_variable(const char *, char *, int);
extern int unbind_variable_noref(const char *);
extern void stupidly_hack_special_variables(char *);
extern char *set_working_directory(char *);
extern char *sh_single_quote(const char *);
extern struct variable **all_shell_variables(void), **all_shell_functions(void);
extern struct word *make_word(const char *);
extern struct word_list *make_word_list(struct word *, struct word_list *), *list_rest_of_args(void);
extern int (*builtin_address(const char *))(struct word_list *);

/* --- the protocol ----------------------------------------------------------------------------- */

/* What follows the `enable` line on standard input. */
struct hello {
    uint32_t magic;
    int32_t control, object; /* descriptors: the socket, and this object's file */
    uint32_t name_length;
    char name[64]; /* the abstract name to connect to when the socket was closed by a command */
    uint32_t late_length; /* bytes that follow: changes to the environment that were to wait until now */
};

enum { RUN = 1, SNAPSHOT = 2 };
enum { ONCE = 1, IN_FILE = 2, HAS_CWD = 4, SET_STATUS = 8, NO_HURRY = 16 };

/* One packet. After it: the directory if there is one, the changes to the environment ("+NAME=value"
 * or "-NAME"), an empty string, the text; each ends with a NUL. With IN_FILE they are in the last
 * descriptor instead. */
struct request {
    uint32_t magic, kind, flags, sequence;
    int32_t status;
    uint32_t length;
};

enum { READY = 1, DONE = 2, REFUSED = 3 };
enum { NORMAL = 0, EXIT = 1, INTERRUPTED = 2, SIGNALED = 3 };

struct report {
    uint32_t magic, kind, sequence;
    int32_t status;
    uint32_t how, reserved;
    uint64_t user_us, system_us, max_rss_kib;
};

enum { MAGIC = 0x42415243, MAX_PACKET = 64 << 10 };

/* --- state ------------------------------------------------------------------------------------ */

static pid_t shell;                     /* not so in the shell's forks */
static int control = -1, null = -1;     /* the socket, /dev/null */
static int high;                        /* our descriptors are here and above */
static struct stat control_is, null_is; /* to see that a command has not replaced them */
static struct hello hello;

static volatile sig_atomic_t running;  /* a command is */
static volatile sig_atomic_t unwinding; /* INTERRUPTED or SIGNALED: why the command is being unwound */
static volatile sig_atomic_t fatal;    /* the signal, if SIGNALED */

static char packet[sizeof(struct request) + MAX_PACKET + 1] __attribute__((aligned(8)));
static struct request *const request = (struct request *)packet;
static struct rusage self_before, children_before;

/* What to put back after a command with its own environment or directory. */
static struct change {
    char *name;
    int existed;
    struct variable was;
} *changes;
static int change_count;
static int old_directory = -1;
static char *old_directory_name;
static void *mapped;
static size_t mapped_length;

/* --- descriptors ------------------------------------------------------------------------------ */

static int move_up(int fd)
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

/* A command may close or replace any descriptor (`exec 400>&-`). Ours are looked at before each use. */
static void check_descriptors(void)
{
    if (null < 0 || !same(null, &null_is)) {
        null = move_up(open("/dev/null", O_RDWR | O_CLOEXEC));
        fstat(null, &null_is);
    }
    if (!same(control, &control_is)) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        memcpy(address.sun_path + 1, hello.name, hello.name_length);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        socklen_t length = offsetof(struct sockaddr_un, sun_path) + 1 + hello.name_length;
        if (fd < 0 || connect(fd, (struct sockaddr *)&address, length) < 0)
            _exit(125);
        control = move_up(fd);
        fstat(control, &control_is);
    }
}

static void stdio_to_null(void)
{
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
}

/* --- signals ---------------------------------------------------------------------------------- */

static void unwind(int why)
{
    unwinding = why;
    interrupt_state = 1;
    if (wait_intr_flag) /* the `wait` builtin looks at this one only */
        wait_signal_received = SIGINT;
}

/* The interrupt: bash unwinds as for SIGINT at its next check. It does not depend on what the
 * command has done to SIGINT. */
static void on_interrupt(int signal)
{
    (void)signal;
    if (running && getpid() == shell)
        unwind(INTERRUPTED);
}

/* A signal that would end the shell ends the command. Between commands it does nothing. In a subshell
 * it does what it would have done. */
static void on_fatal(int signal)
{
    if (getpid() != shell) {
        struct sigaction action = { .sa_handler = SIG_DFL };
        sigaction(signal, &action, NULL);
        kill(getpid(), signal);
    } else if (running && unwinding != INTERRUPTED) {
        fatal = signal;
        unwind(SIGNALED);
    }
}

static void handle_interrupt(void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler };
    sigaction(SIGRTMAX - 3, &action, NULL);
}

static void handle_signals(void)
{
    static const int fatals[] = {
        SIGHUP, SIGINT, SIGPIPE, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF, SIGXCPU, SIGXFSZ,
    };
    struct sigaction action = { .sa_handler = on_fatal };
    for (size_t i = 0; i < sizeof fatals / sizeof *fatals; i++)
        if (!signal_is_trapped(fatals[i]))
            sigaction(fatals[i], &action, NULL);
    handle_interrupt(on_interrupt);
}

/* --- a command's own environment and directory ------------------------------------------------- */

static char *copy(const char *text)
{
    char *new = malloc(strlen(text) + 1);
    return new ? strcpy(new, text) : NULL;
}

/* Makes the variable an exported one with this value, or removes it, whatever it was. Assigning
 * would not do: it may be readonly, an array, a nameref or an integer. */
static void set_variable(struct variable *variable, char *name, const char *value)
{
    if (value) {
        if (!variable)
            variable = bind_global_variable(name, "", 0);
        if (!variable)
            return;
        if (variable->value && !(variable->attributes & (ATT_ARRAY | ATT_ASSOC)))
            free(variable->value);
        free(variable->exportstr);
        variable->value = copy(value);
        variable->exportstr = NULL;
        variable->attributes = ATT_EXPORTED;
    } else if (variable) {
        unbind_variable_noref(name);
    }
    array_needs_making = 1;
    stupidly_hack_special_variables(name);
}

/* Remembers a variable, and takes its contents away so that nothing below frees them. */
static struct variable *set_aside(char *name, int keep_value)
{
    struct variable *variable = find_global_variable_noref(name);
    struct change *change = &changes[change_count++];
    change->name = name;
    change->existed = variable != NULL;
    if (variable) {
        change->was = *variable;
        variable->value = keep_value && variable->value ? copy(variable->value) : NULL;
        variable->exportstr = NULL;
        if (!keep_value)
            variable->dynamic_value = variable->assign_func = NULL, variable->attributes = 0;
    }
    return variable;
}

static void put_back(void)
{
    while (change_count > 0) {
        struct change *change = &changes[--change_count];
        struct variable *variable = find_global_variable_noref(change->name);
        if (!change->existed) {
            if (variable)
                unbind_variable_noref(change->name);
        } else {
            if (!variable)
                variable = bind_global_variable(change->name, "", 0);
            if (!variable)
                continue;
            if (variable->value && !(variable->attributes & (ATT_ARRAY | ATT_ASSOC)))
                free(variable->value);
            free(variable->exportstr);
            char *name = variable->name;
            *variable = change->was;
            variable->name = name;
        }
        array_needs_making = 1;
        stupidly_hack_special_variables(change->name);
    }
    free(changes);
    changes = NULL;
    if (old_directory_name) {
        if (old_directory < 0 || fchdir(old_directory) < 0)
            (void)!chdir(old_directory_name);
        if (old_directory >= 0)
            close(old_directory);
        set_working_directory(old_directory_name);
        free(old_directory_name);
        old_directory_name = NULL;
        old_directory = -1;
    }
    if (mapped) {
        munmap(mapped, mapped_length);
        mapped = NULL;
    }
}

/* Applies what precedes the text and returns the text; NULL if the directory cannot be entered. */
static char *apply_changes(char *body, uint32_t flags)
{
    char *directory = flags & HAS_CWD ? body : NULL, *first = body, *at;
    int count = 2;
    if (directory)
        first += strlen(directory) + 1;
    for (at = first; *at; at += strlen(at) + 1)
        count++;
    char *text = at + 1;
    if (!directory && at == first)
        return text;

    int lasting = flags & ONCE;
    if (!lasting && !(changes = calloc(count, sizeof *changes)))
        return NULL;
    if (directory) {
        int here = lasting ? -1 : open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (chdir(directory) < 0) {
            if (here >= 0)
                close(here);
            return NULL;
        }
        char here_path[PATH_MAX];
        const char *path = directory[0] == '/' || !getcwd(here_path, sizeof here_path) ? directory : here_path;
        struct variable *pwd;
        if (lasting) {
            pwd = find_global_variable_noref("PWD");
        } else {
            old_directory = here < 0 ? -1 : move_up(here);
            old_directory_name = copy(the_current_working_directory ? the_current_working_directory : "/");
            set_aside("OLDPWD", 1); /* the command may use `cd` */
            pwd = set_aside("PWD", 0);
        }
        set_working_directory((char *)path);
        set_variable(pwd, "PWD", path);
    }
    for (at = first; *at; at += strlen(at) + 1) {
        char *name = at + 1, *equals = *at == '+' ? strchr(name, '=') : NULL;
        if (equals)
            *equals = '\0';
        set_variable(lasting ? find_global_variable_noref(name) : set_aside(name, 0), name, equals ? equals + 1 : NULL);
        if (equals)
            at = equals + 1; /* past the NUL we have put in */
    }
    return text;
}

/* --- requests and reports ----------------------------------------------------------------------- */

static int try_report(uint32_t kind, int status, uint32_t how)
{
    struct report report = { .magic = MAGIC, .kind = kind, .sequence = kind == READY ? 0 : request->sequence, .status = status, .how = how };
    if (kind == DONE) {
        struct rusage self, children;
        getrusage(RUSAGE_SELF, &self);
        getrusage(RUSAGE_CHILDREN, &children);
#define MICROSECONDS(field) \
    ((self.field.tv_sec - self_before.field.tv_sec + children.field.tv_sec - children_before.field.tv_sec) * 1000000LL \
     + self.field.tv_usec - self_before.field.tv_usec + children.field.tv_usec - children_before.field.tv_usec)
        report.user_us = MICROSECONDS(ru_utime);
        report.system_us = MICROSECONDS(ru_stime);
        /* The kernel keeps one maximum over all children; it is this command's if it has grown. */
        int grown = children.ru_maxrss > children_before.ru_maxrss;
        report.max_rss_kib = grown && children.ru_maxrss > self.ru_maxrss ? children.ru_maxrss : self.ru_maxrss;
    }
    while (send(control, &report, sizeof report, MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            return -1;
    return 0;
}

static void send_report(uint32_t kind, int status, uint32_t how)
{
    if (try_report(kind, status, how) < 0)
        _exit(125);
}

/* Waits for a request. Returns the number of descriptors, which are in `fds`. */
static int receive(int fds[4])
{
    for (;;) {
        union {
            struct cmsghdr align;
            char bytes[CMSG_SPACE(4 * sizeof(int))];
        } ancillary;
        struct iovec part = { packet, sizeof packet - 1 };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &ancillary,
                                  .msg_controllen = sizeof ancillary };
        ssize_t length = recvmsg(control, &message, MSG_CMSG_CLOEXEC);
        if (length < 0 && errno == EINTR)
            continue;
        if (length <= 0) { /* nobody there any more: the shell ends, as at the end of its input */
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
        if (length >= (ssize_t)sizeof *request && request->magic == MAGIC
            && count >= (request->kind == RUN ? 3 + !!(request->flags & IN_FILE) : 1))
            return count;
        while (count > 0)
            close(fds[--count]);
        if (length >= (ssize_t)sizeof *request && request->magic == MAGIC)
            send_report(REFUSED, EMFILE, 0);
    }
}

/* From here on no signal unwinds. */
static void stop_running(void)
{
    running = 0;
    interrupt_state = 0;
}

static void finish(int status, uint32_t how)
{
    stop_running();
    while (fflush(stdout) < 0 && errno == EINTR)
        ;
    __fpurge(stdout);
    clearerr(stdout);
    put_back();
    if (request->flags & SET_STATUS) {
        status = request->status;
        unbind_variable_noref("PIPESTATUS"); /* no command has run yet */
    }
    last_command_exit_value = status;
    read_but_dont_execute = 0; /* `set -n` would be for ever */
    check_descriptors();
    stdio_to_null();
    send_report(DONE, status, how);
}

/* --- snapshots --------------------------------------------------------------------------------- */

/* Calls a builtin's function itself: no function, alias, trap or option comes between. */
static void call(const char *builtin, const char *option, struct word_list *rest)
{
    int (*function)(struct word_list *) = builtin_address(builtin);
    if (function)
        function(option ? make_word_list(make_word(option), rest) : rest);
}

/* The variables that bash makes by itself and that assigning would break or refuse. */
static const char *const bashs_own[] = {
    "BASH", "BASHOPTS", "BASHPID", "BASH_ALIASES", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_CMDS",
    "BASH_COMMAND", "BASH_EXECUTION_STRING", "BASH_LINENO", "BASH_MONOSECONDS", "BASH_SOURCE", "BASH_SUBSHELL",
    "BASH_VERSINFO", "BASH_VERSION", "COMP_WORDBREAKS", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "EUID",
    "FUNCNAME", "GROUPS", "HISTCMD", "LINENO", "PIPESTATUS", "PPID", "RANDOM", "SECONDS", "SHELLOPTS",
    "SRANDOM", "UID", "_", NULL,
};
/* Setting an option changes these, so they come after the options. */
static const char *const set_by_options[] = { "BASH_COMPAT", "IGNOREEOF", "POSIXLY_CORRECT", NULL };
/* The words the snapshot itself uses. Functions with these names come at its end. */
static const char *const used_words[] = {
    "alias", "cd", "declare", "enable", "set", "shopt", "trap", "umask", "unset", NULL,
};

static int is_one_of(const char *name, const char *const *names)
{
    while (*names)
        if (strcmp(name, *names++) == 0)
            return 1;
    return 0;
}

static void print_functions(struct variable **functions, int shadowing)
{
    struct word_list *names = NULL;
    for (int i = 0; functions && functions[i]; i++)
        if (is_one_of(functions[i]->name, used_words) == shadowing)
            names = make_word_list(make_word(functions[i]->name), names);
    if (!names)
        return;
    call("declare", "-f", names);
    for (int i = 0; functions[i]; i++) {
        static const struct { int attribute; char flag; } flags[] = { { 0x1, 'x' }, { 0x2, 'r' }, { 0x80, 't' } };
        for (int j = 0; j < 3; j++)
            if ((functions[i]->attributes & flags[j].attribute) && !shadowing && !is_one_of(functions[i]->name, used_words))
                printf("declare -f%c -- %s\n", flags[j].flag, sh_single_quote(functions[i]->name));
    }
}

static void print_traps(void)
{
    struct word_list *signals = make_word_list(make_word("DEBUG"), NULL);
    signals = make_word_list(make_word("ERR"), make_word_list(make_word("RETURN"), signals));
    for (int number = SIGRTMAX; number >= 0; number--) {
        char text[12];
        snprintf(text, sizeof text, "%d", number);
        signals = make_word_list(make_word(text), signals);
    }
    call("trap", "-p", signals);
}

/* Prints text that brings a fresh bash to this one's state. The order matters. Functions first: bash
 * parses them one by one, under the options of a fresh shell. All commands are in one group, which is
 * parsed before any of it is run, so that no alias takes effect within. Options come late, errexit after
 * those that may be refused; then traps, DEBUG's as the last; then the functions with the names of words
 * used here (without their attributes, for which there is no word left). */
static void print_snapshot(void)
{
    int posix = posixly_correct, errexit = errexit_flag;
    posixly_correct = errexit_flag = 0;
    printf("# status %d\n", last_command_exit_value);
    struct variable **functions = all_shell_functions(), **variables = all_shell_variables();
    print_functions(functions, 0);

    printf("{\n");
    if (the_current_working_directory)
        printf("cd -- %s\n", sh_single_quote(the_current_working_directory));
    struct word_list *names = NULL, **end = &names;
    for (int i = 0; variables && variables[i]; i++)
        if (!is_one_of(variables[i]->name, bashs_own) && !is_one_of(variables[i]->name, set_by_options)) {
            *end = make_word_list(make_word(variables[i]->name), NULL);
            end = &(*end)->next;
        }
    if (names)
        call("declare", "-p", names);
    printf("set --");
    for (struct word_list *at = list_rest_of_args(); at; at = at->next)
        printf(" %s", sh_single_quote(at->word->text));
    printf("\n");
    call("umask", "-p", NULL);
    call("alias", "-p", NULL);
    if (posix)
        printf("set -o posix\n"); /* it changes other options */
    call("shopt", "-p", NULL); /* extdebug does, too */
    posixly_correct = posix;
    call("set", "+o", NULL);
    posixly_correct = 0;
    for (const char *const *name = set_by_options; *name; name++)
        if (find_global_variable_noref(*name))
            call("declare", "-p", make_word_list(make_word(*name), NULL));
        else if (strcmp(*name, "BASH_COMPAT") == 0) /* the only one set by an option that is off */
            printf("unset -v BASH_COMPAT\n");
    call("enable", "-n", NULL);
    if (errexit)
        printf("set -e\n");
    if (restricted)
        printf("set -r\n");
    print_traps();
    if (!posix) /* which would not have them */
        print_functions(functions, 1);
    printf("}\n# end\n");
    fflush(stdout);
}

/* The number of the command that what is forked belongs to is in the lowest bits of the soft
 * RLIMIT_RTTIME, which the supervisor sets from outside. 0 is the shell's own. */
#define COMMAND_BITS ((rlim_t)0xfffff)

/* Forks as nobody's command: the next one's number may be set already. */
static long fork_untagged(void)
{
    struct rlimit tag, own, now;
    if (getrlimit(RLIMIT_RTTIME, &tag) || tag.rlim_cur == RLIM_INFINITY)
        return syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
    own = tag;
    own.rlim_cur &= ~COMMAND_BITS;
    prlimit(0, RLIMIT_RTTIME, &own, &tag);
    long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) /* the next one's may have been set just before */
        setrlimit(RLIMIT_RTTIME, &own);
    else if (prlimit(0, RLIMIT_RTTIME, &tag, &now) == 0 && now.rlim_cur != own.rlim_cur)
        setrlimit(RLIMIT_RTTIME, &now); /* it was set meanwhile, and that is the one that counts */
    return pid;
}

/* How long the shell waits for the fork to be in its group: it takes microseconds. */
enum { GROUP_PATIENCE_MS = 1000 };

/* Thousands of forks that nobody waits for must not keep commands waiting. They still have to come to
 * their end on a busy machine, so they are not idle ones. Where the kernel groups processes by session,
 * what counts is how nice the group is. */
static void be_nice(void)
{
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 10);
    int group = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
    if (group < 0)
        return;
    ssize_t written = write(group, "10", 2);
    (void)written; /* others have changed theirs a moment ago */
    close(group);
}

/* Forks the shell as its sibling, so that `wait`, `jobs` and `$!` never hear of it; the supervisor
 * reaps it. It has a session and a process group of its own, so that a command's `kill -9 0` or `suspend -f` does not
 * reach it. Only itself and its parent can see to that, and the parent is not the shell: so the shell
 * takes no command before the fork has done it, and closed the pipe. */
static void take_snapshot(int fd, int hurry)
{
    int grouped[2] = { -1, -1 };
    int waits = pipe2(grouped, O_CLOEXEC) == 0;
    long pid = fork_untagged();
    if (pid == 0) {
        setsid();
        if (waits) {
            close(grouped[0]);
            close(grouped[1]);
        }
        if (!hurry)
            be_nice();
        dup2(fd, 1);
        close(control);
        __fpurge(stdout);
        setvbuf(stdout, NULL, _IOFBF, 1 << 16);
        if (__sigsetjmp(top_level, 0) == 0)
            print_snapshot();
        _exit(0);
    }
    if (waits) {
        close(grouped[1]);
        struct pollfd closed = { .fd = grouped[0] };
        while (pid > 0 && poll(&closed, 1, GROUP_PATIENCE_MS) < 0 && errno == EINTR)
            ;
        close(grouped[0]);
    }
    close(fd);
}

/* --- the loop ----------------------------------------------------------------------------------- */

/* Some of bash's jumps do not undo redirections: its copies of what was redirected stay open. They are
 * close-on-exec and begin at 10; what a user opens there is not close-on-exec. */
static void close_saved_copies(void)
{
    for (int fd = 10; fd < 40 && fd < high; fd++)
        if (fd != xtrace_fd && fcntl(fd, F_GETFD) == FD_CLOEXEC && fd != control && fd != null && fd != old_directory)
            close(fd);
}

/* A long jump has left the command: brings bash back to a state in which it can take the next. */
static void recover(int code)
{
    int status = last_command_exit_value, why = unwinding;
    interrupt_state = 0;
    if (why) {
        __fpurge(stdout); /* what an interrupted builtin had not yet written */
        status = why == SIGNALED ? 128 + fatal : 128 + SIGINT;
    } else if (code != DISCARD && signal_is_trapped(0)) {
        /* Here `top_level` is overwritten; the loop sets it again. */
        status = run_exit_trap();
        run_trap_cleanup(0);
        restore_default_signal(0); /* it has been run; a script would have ended */
        if (unwinding) {
            __fpurge(stdout);
            why = unwinding;
            status = why == SIGNALED ? 128 + fatal : 128 + SIGINT;
        }
    }
    stop_running(); /* `top_level` may be stale: nothing must jump any more */
    top_level_cleanup();
    reset_parser();
    if (variable_context)
        reset_local_contexts();
    evalnest = sourcelevel = 0;
    /* Some of bash's jumps out of a function do not pop its call stack. */
    static const char *const stacks[] = { "FUNCNAME", "BASH_SOURCE", "BASH_LINENO" };
    for (int i = 0; i < 3; i++) {
        struct variable *stack = find_variable(stacks[i]);
        if (stack && (stack->attributes & ATT_ARRAY) && stack->value)
            array_flush(stack->value);
    }
    close_saved_copies();
    restore_sigmask();
    set_pipestatus_from_exit(status);
    finish(status, why ? (uint32_t)why : EXIT);
}

/* The only command is over and so is its exit trap. Saying so now spares whoever waits for it the time
 * that the kernel takes to end this process. It holds nothing any more that another command could miss. Where there is no
 * hurry it ends when it is let go: its end takes a core for longer than its command did, and somebody may need that core
 * to hear of it. Unless it has children: when one of them ends, that is for the next of kin to hear. */
static void report_exit(int status, void *unused)
{
    (void)unused;
    if (getpid() != shell || !same(control, &control_is))
        return;
    fflush(stdout);
#ifdef SYS_close_range
    syscall(SYS_close_range, 0, control - 1, 0);
    syscall(SYS_close_range, control + 1, ~0U, 0);
#endif
    /* Where that call is not known. */
    close(1);
    close(2);
    siginfo_t child;
    int has_children = waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0;
    if (chdir("/") < 0 || try_report(DONE, status & 0xff, NORMAL) < 0 || has_children || !(request->flags & NO_HURRY))
        return;
    char nothing;
    while (recv(control, &nothing, sizeof nothing, 0) < 0 && errno == EINTR)
        ;
}

/* As `bash -c` does it: the shell ends with the text. */
static void run_once(char *text)
{
    on_exit(report_exit, NULL);
    close(null);
    handle_interrupt(SIG_DFL);
    indirection_level = 0;
    startup_state = 2;
    want_pending_command = 1;
    read_from_stdin = 0;
    indirection_level = 0; /* or a trace would start with `++` */
    bind_global_variable("BASH_EXECUTION_STRING", text, 0);
    int code = __sigsetjmp(top_level, 0);
    if (code == 0)
        last_command_exit_value = parse_and_execute(text, "-c", SEVAL_NOHIST | SEVAL_NOFREE | SEVAL_RESETLINE);
    else if (code == FORCE_EOF)
        last_command_exit_value = 127;
    else if (code == DISCARD)
        last_command_exit_value = 1;
    exit_shell(last_command_exit_value);
}

static void run(int fds[4])
{
    uint32_t flags = request->flags;
    char *body = packet + sizeof *request;
    for (int i = 0; i < 3; i++)
        if (fds[i] != i)
            dup2(fds[i], i);
        else /* the number was free, which it hardly ever is */
            fcntl(i, F_SETFD, 0);
    for (int i = 0; i < 3; i++)
        if (fds[i] > 2)
            close(fds[i]);
    getrusage(RUSAGE_SELF, &self_before);
    getrusage(RUSAGE_CHILDREN, &children_before);
    unwinding = fatal = 0;
    interrupt_state = 0; /* set before the command's bytes arrived: not meant for it */
    if (flags & IN_FILE) {
        mapped_length = request->length;
        mapped = mmap(NULL, mapped_length, PROT_READ | PROT_WRITE, MAP_PRIVATE, fds[3], 0);
        close(fds[3]);
        if (mapped == MAP_FAILED) {
            mapped = NULL;
            finish(126, NORMAL);
            return;
        }
        body = mapped;
    }
    char *text = apply_changes(body, flags);
    if (!text) {
        dprintf(2, "bash: cd: %s: %s\n", body, strerror(errno));
        if (flags & ONCE)
            _exit(1);
        finish(1, NORMAL);
        return;
    }
    if (flags & ONCE)
        run_once(text);
    handle_signals();
    running = 1;
    indirection_level = 0; /* or a trace would start with `++` */
    return_catch_flag = 1;
    int status;
    if (__sigsetjmp(return_catch, 0)) {
        parse_and_execute_cleanup(-1);
        status = return_catch_value;
    } else {
        status = parse_and_execute(text, "bash", SEVAL_NOHIST | SEVAL_NOFREE | SEVAL_NOHISTEXP | SEVAL_RESETLINE);
    }
    return_catch_flag = 0;
    finish(status, NORMAL);
}

static int next_command(void)
{
    bash_input.type = 0;
    default_buffered_input = -1;
    stdio_to_null();
    last_command_exit_value = 0;
    unbind_variable_noref("PIPESTATUS");
    bind_global_variable("_", shell_name, 0);
    apply_changes(packet, ONCE);
    handle_interrupt(on_interrupt);
    send_report(READY, 0, 0);
    for (;;) {
        int code = __sigsetjmp(top_level, 0);
        if (code) {
            if (getpid() != shell) { /* a fork that found its way here has nothing to do here */
                fflush(stdout);
                _exit(last_command_exit_value);
            }
            if (running) {
                recover(code);
                continue;
            }
        }
        int fds[4];
        check_descriptors();
        receive(fds);
        if (request->kind == SNAPSHOT)
            take_snapshot(fds[0], !(request->flags & NO_HURRY));
        else
            run(fds);
    }
}

/* --- loading -------------------------------------------------------------------------------------- */

static int read_fully(void *to, size_t length)
{
    size_t have = 0;
    while (have < length) {
        ssize_t n = read(0, (char *)to + have, length - have);
        if (n <= 0)
            return 0;
        have += n;
    }
    return 1;
}

/* From 4.4 to 5.3: what was before has no load functions, what will be may have other structures. */
static int is_known_version(void)
{
    static const char *const known[] = { "4.4", "5.0", "5.1", "5.2", "5.3", NULL };
    return is_one_of(dist_version, known);
}

int sandcrab_builtin_load(char *name)
{
    (void)name;
    if (!read_fully(&hello, sizeof hello) || !is_known_version())
        return 0;
    if (hello.magic != MAGIC || hello.name_length > sizeof hello.name
        || hello.late_length >= sizeof packet || !read_fully(packet, hello.late_length))
        return 0;
    shell = getpid();
    control = hello.control;
    high = hello.control;
    close(hello.object);
    fcntl(control, F_SETFD, FD_CLOEXEC);
    if (fstat(control, &control_is) < 0)
        return 0;
    check_descriptors();
    bash_input.getter = next_command;
    return 0; /* "failed": bash registers nothing */
}

static int no_builtin(struct word_list *list)
{
    (void)list;
    return 1;
}

/* What `enable -f` looks for. */
static char *no_help[] = { NULL };
struct {
    char *name;
    int (*function)(struct word_list *);
    int flags;
    char **long_doc;
    const char *short_doc;
    char *handle;
} sandcrab_struct = { "sandcrab", no_builtin, 0, no_help, "", NULL };
