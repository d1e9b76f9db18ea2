/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * snapshot.c: writes the shell's state as text that restores it in a new bash.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "object.h"

/* Calls a builtin's function directly: no function, alias, trap or option interferes. */
static void call(const char *builtin, const char *option, struct word_list *rest)
{
    builtin_function *function = builtin_address(builtin);
    if (function)
        function(option ? make_word_list(make_word(option), rest) : rest);
}

/* The variables that bash creates by itself and that an assignment would break or refuse. */
static const char *const bashs_own[] = {
    "BASH", "BASHOPTS", "BASHPID", "BASH_ALIASES", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_CMDS",
    "BASH_COMMAND", "BASH_EXECUTION_STRING", "BASH_LINENO", "BASH_MONOSECONDS", "BASH_SOURCE", "BASH_SUBSHELL",
    "BASH_VERSINFO", "BASH_VERSION", "COMP_WORDBREAKS", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "EUID",
    "FUNCNAME", "GROUPS", "HISTCMD", "LINENO", "PIPESTATUS", "PPID", "RANDOM", "SECONDS", "SHELLOPTS",
    "SRANDOM", "UID", "_", NULL,
};
/* Setting an option changes these, so they come after the options. */
static const char *const set_by_options[] = { "BASH_COMPAT", "IGNOREEOF", "POSIXLY_CORRECT", NULL };
/* The words that the snapshot itself uses. Functions with these names come at its end. */
static const char *const used_words[] = {
    "alias", "cd", "declare", "enable", "set", "shopt", "trap", "umask", "unset", NULL,
};

int is_one_of(const char *name, const char *const *names)
{
    while (*names)
        if (strcmp(name, *names++) == 0)
            return 1;
    return 0;
}

int is_own_variable(const char *name)
{
    return is_one_of(name, bashs_own);
}

/* `export UID` and the like: a snapshot contains only this of such variables. */
int is_exported_own_variable(const struct variable *variable)
{
    return (variable->attributes & ATT_EXPORTED) && is_own_variable(variable->name) && strcmp(variable->name, "_") != 0;
}

/* With these attributes bash changes the assigned value, and an invalid integer value discards the command. The value may
 * be older than the attribute. */
enum { CONVERTING = ATT_INTEGER | ATT_UPPERCASE | ATT_LOWERCASE | ATT_CAPCASE };

static void print_variable(struct variable *variable)
{
    static const struct { int attribute; char flag; } late[] = {
        { ATT_INTEGER, 'i' }, { ATT_UPPERCASE, 'u' }, { ATT_LOWERCASE, 'l' }, { ATT_CAPCASE, 'c' }, { ATT_READONLY, 'r' },
    };
    char flags[sizeof late / sizeof *late + 1] = "";
    int attributes = variable->attributes;
    if (attributes & CONVERTING)
        for (size_t i = 0, n = 0; i < sizeof late / sizeof *late; i++)
            if (attributes & late[i].attribute) {
                flags[n++] = late[i].flag;
                variable->attributes &= ~late[i].attribute;
            }
    call("declare", "-p", make_word_list(make_word(variable->name), NULL));
    variable->attributes = attributes;
    if (*flags)
        printf("declare -%s -- %s\n", flags, variable->name);
}

/* The directory may not exist when this is run; then these are of the shell's initial directory. */
static void print_directory(void)
{
    if (the_current_working_directory)
        printf("cd -- %s || cd .\n", sh_single_quote(the_current_working_directory));
    static const char *const set_by_cd[] = { "OLDPWD", "PWD", NULL };
    for (const char *const *name = set_by_cd; *name; name++)
        if (!find_global_variable_noref(*name))
            printf("unset -v %s\n", *name);
}

/* Whether `cd` sets it to its current value. */
static int is_current_directory(const struct variable *variable)
{
    int attributes = variable->attributes & ATT_OF_USER & ~ATT_READONLY;
    return strcmp(variable->name, "PWD") == 0 && attributes == ATT_EXPORTED && variable->value
        && the_current_working_directory && strcmp(variable->value, the_current_working_directory) == 0;
}

/* Bash runs a list of commands by recursion, as deep as the list is long, so variables are printed in groups of this
 * size: the stack has room for some ten thousand commands. No group is empty, which would be a syntax error. */
enum { GROUP_SIZE = 256 };

static void print_variables(struct variable **variables)
{
    printf("{\n");
    for (int i = 0; variables && variables[i]; i++) {
        struct variable *at = variables[i];
        if (i % GROUP_SIZE == GROUP_SIZE - 1)
            printf("set --\n}\n{\n");
        if (is_exported_own_variable(at))
            printf("declare -x %s\n", at->name);
        else if (is_current_directory(at))
            printf("declare -x%s PWD\n", at->attributes & ATT_READONLY ? "r" : "");
        else if (!is_own_variable(at->name) && !is_one_of(at->name, set_by_options))
            print_variable(at);
    }
    printf("set --\n}\n");
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

/* Prints text that restores this state in a new bash. The order matters. Functions first: bash
 * parses them one by one, under the options of a fresh shell. All commands are in one group, which is
 * parsed before any of it is run, so that no alias takes effect within. Options come late, errexit after
 * those that may be refused; then traps, DEBUG's as the last; then the functions with the names of words
 * used here (without their attributes, because the builtin for those is hidden by then). */
static void print_snapshot(void)
{
    int posix = posixly_correct, errexit = errexit_flag;
    posixly_correct = errexit_flag = 0;
    printf("# status %d\n", last_command_exit_value);
    struct variable **functions = all_shell_functions(), **variables = all_shell_variables();
    print_functions(functions, 0);

    printf("{\n");
    print_directory();
    print_variables(variables);
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
    if (!posix) { /* up to 5.0 turning posix off changes them, also if it is already off */
        struct word_list *changed = make_word_list(make_word("shift_verbose"), NULL);
        call("shopt", "-p", make_word_list(make_word("expand_aliases"), changed));
    }
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

/* The number of the command to which forked processes belong is in the lowest bits of the soft
 * RLIMIT_RTTIME, which the supervisor sets from outside. 0 is the shell itself. */
#define COMMAND_BITS ((rlim_t)0xfffff)

/* Forks a process of no command: the number of the next one may already be set. */
static long fork_untagged(void)
{
    struct rlimit tag, own, now;
    if (getrlimit(RLIMIT_RTTIME, &tag) || tag.rlim_cur == RLIM_INFINITY)
        return syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
    own = tag;
    own.rlim_cur &= ~COMMAND_BITS;
    prlimit(0, RLIMIT_RTTIME, &own, &tag);
    long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) /* that of the next one may just have been set */
        setrlimit(RLIMIT_RTTIME, &own);
    else if (prlimit(0, RLIMIT_RTTIME, &tag, &now) == 0 && now.rlim_cur != own.rlim_cur)
        setrlimit(RLIMIT_RTTIME, &now); /* it was set meanwhile, and that value counts */
    return pid;
}

/* Maximum time for the fork to enter its group: it takes microseconds. */
enum { GROUP_TIMEOUT_MS = 1000 };

/* Thousands of background forks must not delay commands. They must still finish on a busy machine, so
 * they do not have the idle class. If the kernel groups processes by session, the niceness of the group
 * counts. */
static void be_nice(void)
{
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 10);
    int group = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
    if (group < 0)
        return;
    ssize_t written = write(group, "10", 2);
    (void)written; /* others have just changed theirs */
    close(group);
}

/* In the fork: writes the state that the shell has between commands. */
static void write_state(int fd)
{
    dup2(fd, 1);
    if (control >= 0)
        close(control);
    __fpurge(stdout);
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    if (__sigsetjmp(top_level, 0) == 0)
        print_snapshot();
    _exit(0);
}

static int move_above_stdio(int fd)
{
    int up = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (up < 0)
        return fd;
    close(fd);
    return up;
}

/* Forks the shell as its sibling, so that `wait`, `jobs` and `$!` do not include it; the supervisor
 * reaps it. It has its own session and process group, so that a command's `kill -9 0` or `suspend -f` does not
 * reach it. Only the fork itself and its parent can do that, and the parent is not the shell: so the shell
 * runs no command before the fork has done it, and closed the pipe. Returns 0 in the fork. */
static long fork_sibling(int closed[2])
{
    int waits = pipe2(closed, O_CLOEXEC) == 0;
    if (!waits)
        closed[0] = closed[1] = -1;
    else if (closed[1] < 3) /* the fork replaces descriptor 1 */
        closed[1] = move_above_stdio(closed[1]);
    long pid = fork_untagged();
    if (pid == 0) {
        setsid();
        if (waits)
            close(closed[0]);
    } else if (waits) {
        close(closed[1]);
    }
    return pid;
}

/* Waits until the fork has closed the pipe, or has ended; at most this many milliseconds, however many signals arrive
 * meanwhile. */
static void wait_for_fork(long pid, int closed, int timeout)
{
    struct pollfd hung_up = { .fd = closed };
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    int left = timeout;
    while (pid > 0 && closed >= 0 && left > 0 && poll(&hung_up, 1, left) < 0 && errno == EINTR) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        left = timeout - ((now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000);
    }
    if (closed >= 0)
        close(closed);
}

/* Fingerprint of the state that the supervisor can restore; 0 is none. */
static uint64_t saved;

void mark_saved(void)
{
    saved = state_fingerprint();
}

void take_snapshot(int fd, uint32_t flags)
{
    uint64_t before = saved;
    mark_saved();
    if (flags & IF_CHANGED && saved && saved == before) {
        static const char unchanged[] = "# unchanged\n";
        (void)!write(fd, unchanged, sizeof unchanged - 1);
        close(fd);
        begin_usage(); /* this usage belongs to no command */
        return;
    }
    int grouped[2];
    long pid = fork_sibling(grouped);
    if (pid == 0) {
        if (grouped[1] >= 0)
            close(grouped[1]);
        if (flags & NO_HURRY)
            be_nice();
        write_state(fd);
    }
    wait_for_fork(pid, grouped[0], GROUP_TIMEOUT_MS);
    close(fd);
    begin_usage(); /* this usage belongs to no command */
}

/* A shell that exits does not pass on options that would end the next one too: with these an ordinary command would end
 * it. */
void leave_strict_modes(void)
{
    for (const char *flag = "eut"; *flag; flag++)
        change_flag(*flag, '+');
    set_shellopts();
}

/* Maximum time to write the state. */
enum { STATE_TIMEOUT_MS = 20000 };

/* The shell is about to end: sends its state between commands to the supervisor. The fork completes the end
 * of the command; the shell continues here. With a status it exits by itself, and has run its EXIT trap. */
void send_state(int status, int done)
{
    if (!has_control())
        return;
    int file = memfd_create("state", MFD_CLOEXEC), written[2];
    if (file < 0)
        return;
    long pid = fork_sibling(written);
    if (pid == 0) {
        if (status >= 0) {
            last_command_exit_value = status;
            restore_default_signal(0);
        }
        if ((done & TRAPS_ASIDE) && restore_traps)
            restore_traps();
        if (done & COUNTED_DOWN)
            adjust_shell_level(1);
        leave_functions();
        undo_forgotten_calls();
        put_back();
        leave_strict_modes();
        write_state(file);
    }
    if (written[0] >= 0) { /* otherwise it would be incomplete */
        wait_for_fork(pid, written[0], STATE_TIMEOUT_MS);
        try_report_with(STATE, 0, 0, file);
    }
    close(file);
}
