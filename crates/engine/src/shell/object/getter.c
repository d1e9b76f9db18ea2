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
 * parser the text, has bash run it, and reports the status. Everything the text may do to get out of
 * there (`exit`, errexit, an expansion error, an interrupt) is a long jump in bash, to
 * `top_level`, which points here.
 *
 * Footprint: no variable, function, trap, option or builtin; one descriptor, high and close-on-exec.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "object.h"

pid_t shell, supervisor;
int is_session;

/* From here on signals do not unwind the command. */
static void stop_running(void)
{
    running = 0;
    interrupt_state = 0;
}

/* Restores the state of a shell in which no command has run yet. */
static void forget_commands(void)
{
    free(the_printed_command_except_trap); /* BASH_COMMAND */
    the_printed_command_except_trap = NULL;
    unbind_variable_noref("PIPESTATUS");
    char **own = shell_environment;
    while (own && *own && strncmp(*own, "_=", 2) != 0)
        own++;
    int given = own && *own;
    struct variable *last = bind_global_variable("_", given ? *own + 2 : shell_name, 0);
    if (last && given)
        last->attributes |= ATT_EXPORTED;
}

/* After a fork, each page that bash touches causes a page fault: thirty for the shortest command, half of its time. A
 * shell that was forked ahead of its command takes them in advance. */
static void warm_up(void)
{
    if (find_function(":"))
        return;
    parse_and_execute(":", "-c", SEVAL_NOHIST | SEVAL_NOFREE | SEVAL_RESETLINE);
    last_command_exit_value = 0;
    forget_commands();
}

static void finish(int status, uint32_t how)
{
    stop_running();
    forget_early_signal();
    while (fflush(stdout) < 0 && errno == EINTR)
        ;
    __fpurge(stdout);
    clearerr(stdout);
    put_back();
    if (request->flags & SET_STATUS) {
        last_command_exit_value = status = request->status;
        forget_commands();
    }
    read_but_dont_execute = 0; /* `set -n` would be permanent */
    bash_input.type = NO_INPUT;
    check_control();
    close_stdio();
    send_report(DONE, status, how);
}

/* Some of bash's jumps do not undo redirections: its copies of what was redirected stay open. They are
 * close-on-exec and begin at 10; what a user opens there is not close-on-exec. */
static void close_saved_copies(void)
{
    for (int fd = 10; fd < 40 && fd < high; fd++)
        if (fd != xtrace_fd && fcntl(fd, F_GETFD) == FD_CLOEXEC && fd != control && fd != old_directory)
            close(fd);
}

/* Returns bash to its top level after a jump. */
static void leave_command(int code)
{
    top_level_cleanup();
    reset_parser();
    leave_functions();
    if (code == ERREXIT)
        undo_forgotten_calls();
    evalnest = sourcelevel = 0;
    /* Some of bash's jumps out of a function do not pop its call stack. */
    static const char *const stacks[] = { "FUNCNAME", "BASH_SOURCE", "BASH_LINENO" };
    for (int i = 0; i < 3; i++) {
        struct variable *stack = find_variable(stacks[i]);
        if (stack && (stack->attributes & ATT_ARRAY) && stack->value)
            array_flush(stack->value);
    }
    if (&sigalrm_seen) /* up to 5.1: of an ended `read -t`, into whose frame the next read would jump */
        sigalrm_seen = 0;
    close_saved_copies();
    sigprocmask(SIG_SETMASK, &top_level_mask, NULL);
    discard_command();
    signals_changed = 1;
}

/* A long jump has left the command: returns bash to a state in which it can run the next one. */
static void recover(int code)
{
    int status = last_command_exit_value, why = unwinding, is_over = 0;
    interrupt_state = 0;
    if (why) {
        __fpurge(stdout); /* unwritten output of an interrupted builtin */
        status = why == SIGNALED ? 128 + fatal : 128 + SIGINT;
    } else if (code == DISCARD) {
        /* An error at which bash discards a command and continues with the next. */
        if (status == 0)
            last_command_exit_value = 1;
        leave_command(code);
        set_pipestatus_from_exit(last_command_exit_value);
        return;
    } else {
        is_over = 1;
    }
    if (is_over && signal_is_trapped(0)) {
        /* Here `top_level` is overwritten; the loop sets it again. */
        status = run_exit_trap();
        run_trap_cleanup(0);
        restore_default_signal(0); /* it has run; a script would have ended */
        if (unwinding) {
            __fpurge(stdout);
            why = unwinding;
            status = why == SIGNALED ? 128 + fatal : 128 + SIGINT;
        }
    }
    stop_running(); /* `top_level` may be stale: jumps are not allowed any more */
    leave_command(code);
    set_pipestatus_from_exit(status);
    last_command_exit_value = status;
    if (is_over)
        leave_strict_modes();
    finish(status, why ? (uint32_t)why : is_over ? EXIT : NORMAL);
}

/* The only command and its EXIT trap have ended. Reporting it now saves the client the time that the kernel takes to end
 * this process. It holds nothing that another command could need. With low urgency it exits when it is disconnected: its
 * exit occupies a core for longer than its command did, and the client may need that core to get the report. A shell with
 * children exits at once, so that their new parent is notified of their end. */
static void report_exit(int status, void *unused)
{
    (void)unused;
    if (getpid() != shell || !has_control())
        return;
    fflush(stdout);
#ifdef SYS_close_range
    syscall(SYS_close_range, 0, control - 1, 0);
    syscall(SYS_close_range, control + 1, ~0U, 0);
#endif
    /* On kernels without this call. */
    close(1);
    close(2);
    siginfo_t child;
    childless = waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 && errno == ECHILD;
    if (chdir("/") < 0 || try_report(DONE, status & 0xff, NORMAL) < 0)
        return;
    char nothing;
    while (childless && request->flags & NO_HURRY && recv(control, &nothing, sizeof nothing, 0) < 0 && errno == EINTR)
        ;
    _exit(status); /* the rest of `exit` touches pages of libraries that this shell never used */
}

/* The shell of a session exits by itself: after a failed `exec`, or a syntax error under `set -e`. */
static void hand_on_state(int status, void *unused)
{
    (void)unused;
    /* With another input it has become the shell of a script, after `exec`. */
    if (getpid() == shell && is_session && bash_input.type == STRING_INPUT)
        send_state(status & 0xff, 0);
}

/* Like `bash -c`: the shell ends with the text. */
static void run_once(char *text)
{
    if (is_session)
        default_signals();
    is_session = 0;
    on_exit(report_exit, NULL);
    handle_interrupt(SIG_DFL);
    indirection_level = 0;
    startup_state = 2;
    executing = 1; /* HISTCMD */
    want_pending_command = 1;
    read_from_stdin = 0;
    indirection_level = 0; /* or a trace would start with `++` */
    bind_global_variable("BASH_EXECUTION_STRING", text, 0);
    if (strcmp(dist_version, "5.3") < 0)
        shell_initialized = 0; /* functions are said to be from the environment */
    int code = __sigsetjmp(top_level, 0);
    int from_one = strcmp(dist_version, "5.1") >= 0; /* older ones count lines from 0 */
    if (!from_one)
        line_number = 0;
    if (code == 0)
        parse_and_execute(text, "-c", SEVAL_NOHIST | SEVAL_NOFREE | (from_one ? SEVAL_RESETLINE : 0));
    else if (code == FORCE_EOF)
        last_command_exit_value = 127;
    else if (code == DISCARD)
        last_command_exit_value = 1;
    exit_shell(last_command_exit_value);
}

/* Additions of a session's shell: aliases, as in an interactive one, and interception of its exit. */
static void begin_session(void)
{
    if (is_session)
        return;
    is_session = 1;
    expand_aliases = 1;
    if (&expaliases_flag)
        expaliases_flag = 1;
    set_bashopts();
    handle_session_signals();
    intercept_exec();
    if (!(request->flags & SET_STATUS)) /* otherwise this text restores its initial state */
        mark_saved();
}

/* Begins the received command; if it is not the only one, the loop continues with it. */
static void begin(int fds[MAX_FDS])
{
    uint32_t flags = request->flags;
    char *body = packet + sizeof *request;
    for (int i = 0; i < 3; i++)
        if (fds[i] != i)
            dup2(fds[i], i);
    for (int i = 0; i < 3; i++)
        if (fds[i] > 2)
            close(fds[i]);
    if (forked_ahead) {
        forked_ahead = 0;
        start_clock();
    }
    begin_usage_of_children();
    unwinding = fatal = 0;
    interrupt_state = 0; /* set before the command arrived: not meant for it */
    if (flags & IN_FILE) {
        body = map_body(fds[3]);
        close(fds[3]);
        if (!body) {
            finish(last_command_exit_value = 126, NORMAL);
            return;
        }
    }
    if (!(flags & ONCE))
        begin_session(); /* before the changes, which are the command's own */
    char *text = apply_changes(body, flags);
    if (!text) {
        dprintf(2, "bash: cd: %s: %s\n", body, strerror(errno));
        if (flags & ONCE)
            _exit(1);
        finish(last_command_exit_value = 1, NORMAL);
        return;
    }
    if (flags & ONCE)
        run_once(text);
    if (signals_changed)
        handle_signals();
    watch_for_exec();
    indirection_level = 1; /* as in bash's own loop: a trace starts with one `+` */
    begin_text(text);
    running = 1;
}

static int next_command(void)
{
    bash_input.type = NO_INPUT;
    default_buffered_input = -1;
    close_stdio();
    last_command_exit_value = 0;
    forget_commands();
    apply_changes(packet, ONCE);
    handle_interrupt(on_interrupt);
    begin_usage();
    send_report(READY, 0, 0);
    for (;;) {
        int code = __sigsetjmp(top_level, 0);
        if (code) {
            if (getpid() != shell) { /* a fork must not run the loop */
                fflush(stdout);
                _exit(code == DISCARD && last_command_exit_value == 0 ? 1 : last_command_exit_value);
            }
            if (running)
                recover(code);
        }
        if (running) {
            run_text();
            finish(text_status(), NORMAL);
            continue;
        }
        int fds[MAX_FDS];
        int count = receive(fds);
        if (request->kind == SNAPSHOT)
            take_snapshot(fds[0], request->flags);
        else if (request->kind == RUN)
            begin(fds);
        else if (fork_command(fds, count) == 0) {
            if (forked_ahead)
                warm_up();
            else
                begin(fds);
        }
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

/* From 4.4 to 5.3: earlier versions have no load functions, later ones may have other structures. */
static int is_known_version(void)
{
    static const char *const known[] = { "4.4", "5.0", "5.1", "5.2", "5.3", NULL };
    return is_one_of(dist_version, known);
}

__attribute__((visibility("default"))) int sandcrab_builtin_load(char *name)
{
    (void)name;
    if (!read_fully(&hello, sizeof hello) || !is_known_version())
        return 0;
    if (hello.magic != MAGIC || hello.name_length > sizeof hello.name
        || hello.late_length >= sizeof packet || !read_fully(packet, hello.late_length))
        return 0;
    shell = getpid();
    supervisor = getppid();
    high = hello.control;
    close(hello.object);
    if (fcntl(hello.control, F_SETFD, FD_CLOEXEC) < 0)
        return 0;
    set_control(hello.control);
    forget_control_in_forks();
    on_exit(hand_on_state, NULL);
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
__attribute__((visibility("default"))) struct {
    char *name;
    builtin_function *function;
    int flags;
    char **long_doc;
    const char *short_doc;
    char *handle;
} sandcrab_struct = { "sandcrab", no_builtin, 0, no_help, "", NULL };
