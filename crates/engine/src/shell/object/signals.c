/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * signals.c: interrupts of a command, and signals that would end the shell.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "object.h"

volatile sig_atomic_t running, unwinding, fatal;
/* The last signal since a command ended. */
static volatile sig_atomic_t early;

static void unwind(int why)
{
    unwinding = why;
    interrupt_state = 1;
    if (wait_intr_flag) /* the `wait` builtin checks only this one */
        wait_signal_received = SIGINT;
}

/* The interrupt: bash unwinds as for SIGINT at its next check. It does not depend on what the
 * command has done to SIGINT. */
void on_interrupt(int signal)
{
    (void)signal;
    if (running && getpid() == shell)
        unwind(INTERRUPTED);
}

static void die_of(int signal)
{
    struct sigaction action = { .sa_handler = SIG_DFL };
    sigaction(signal, &action, NULL);
    kill(getpid(), signal);
}

/* A signal that would end the shell ends the command. Between commands it has no effect. In a subshell
 * it has its usual effect. */
static void on_fatal(int signal)
{
    if (getpid() != shell) {
        die_of(signal);
    } else if (running && unwinding != INTERRUPTED) {
        fatal = signal;
        unwind(SIGNALED);
    } else if (!running) {
        early = signal;
    }
}

/* The same for the signals of a crash, if another process has sent them. A crash itself ends the shell. */
static void on_crash(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code > 0)
        die_of(signal);
    else
        on_fatal(signal);
}

void handle_interrupt(void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler };
    sigaction(SIGRTMAX - 3, &action, NULL);
}

static const int fatals[] = {
    SIGHUP, SIGINT, SIGPIPE, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF, SIGXCPU, SIGXFSZ,
};

int signals_changed;

void handle_signals(void)
{
    signals_changed = 0;
    struct sigaction action = { .sa_handler = on_fatal };
    for (size_t i = 0; i < sizeof fatals / sizeof *fatals; i++)
        if (!signal_is_trapped(fatals[i]))
            sigaction(fatals[i], &action, NULL);
    handle_interrupt(on_interrupt);
}

static const int crashes[] = { SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS };
static const int others[] = { SIGSTKFLT, SIGIO, SIGPWR };

static int is_default(int signal)
{
    struct sigaction now;
    return !signal_is_trapped(signal) && sigaction(signal, NULL, &now) == 0 && now.sa_handler == SIG_DFL;
}

static builtin_function *bashs_trap;

/* When the last trap of a signal is removed, bash restores the default; with a trap on EXIT it installs its own handlers,
 * which would end the shell. */
static int trap_and_handle(struct word_list *list)
{
    int status = bashs_trap(list);
    if (is_session && getpid() == shell)
        handle_signals();
    return status;
}

static void handle_rare_signals(void)
{
    struct sigaction action = { .sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_NODEFER };
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        if (is_default(crashes[i]))
            sigaction(crashes[i], &action, NULL);
    struct sigaction plain = { .sa_handler = on_fatal };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (is_default(others[i]))
            sigaction(others[i], &plain, NULL);
    for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++)
        if (signal != SIGRTMAX - 3 && is_default(signal))
            sigaction(signal, &plain, NULL);
}

/* Called once, when the shell becomes a session's. Later changes of handlers come from `trap`, and from code that sets
 * `signals_changed`. */
void handle_session_signals(void)
{
    handle_signals();
    handle_rare_signals();
    struct builtin *trap = builtin_address_internal("trap", 1);
    if (trap && trap->function != trap_and_handle) {
        bashs_trap = trap->function;
        trap->function = trap_and_handle;
    }
    if (!bashs_trap)
        signals_changed = 1;
}

void forget_early_signal(void)
{
    early = 0;
}

static void set_default(int signal)
{
    struct sigaction now, action = { .sa_handler = SIG_DFL };
    if (!signal_is_trapped(signal) && sigaction(signal, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
        sigaction(signal, &action, NULL);
}

/* A shell that has run a text of the supervisor becomes that of a single command, which a signal ends. The client may
 * already have sent one: the command was reported as started when it was given to this shell. */
void default_signals(void)
{
    for (size_t i = 0; i < sizeof fatals / sizeof *fatals; i++)
        set_default(fatals[i]);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        set_default(crashes[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        set_default(others[i]);
    for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++)
        set_default(signal);
    if (early && !signal_is_trapped(early))
        die_of(early);
}
