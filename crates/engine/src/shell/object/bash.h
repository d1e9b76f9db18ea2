/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * bash.h: the parts of bash that the object uses. The structures are those of bash 4.4 to 5.3.
 * Weak symbols are missing in some of these versions; they are checked before use.
 */
#ifndef SANDCRAB_BASH_H
#define SANDCRAB_BASH_H

#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>

#define WEAK __attribute__((weak))

struct variable {
    char *name, *value, *exportstr;
    struct variable *(*dynamic_value)(struct variable *);
    void *assign_func;
    int attributes, context;
};
enum {
    ATT_EXPORTED = 0x1, ATT_READONLY = 0x2, ATT_ARRAY = 0x4, ATT_INTEGER = 0x10, ATT_ASSOC = 0x40, ATT_UPPERCASE = 0x100,
    ATT_LOWERCASE = 0x200, ATT_CAPCASE = 0x400,
    ATT_OF_USER = 0xfff, /* the others are internal to bash */
};

/* The variables of a function call, of the environment of a command, and, last, the global ones. */
struct scope { char *name; int level, flags; struct scope *up, *down; };
extern struct scope *shell_variables, *global_variables;

struct alias { char *name, *value; char flags; };
extern struct alias **all_aliases(void);

struct word { char *text; int flags; };
struct word_list { struct word_list *next; struct word *word; };
typedef int builtin_function(struct word_list *);
struct command;

struct builtin { char *name; builtin_function *function; int flags; char *const *long_doc; const char *short_doc; char *handle; };
enum { BUILTIN_ENABLED = 1 };
extern struct builtin *shell_builtins;
extern int num_shell_builtins;

/* The input of the parser. Type 0 is "none": bash then does not touch descriptor 0. */
enum { NO_INPUT = 0, STRING_INPUT = 3 };
extern struct {
    int type;
    char *name;
    void *location;
    int (*getter)(void);
    int (*ungetter)(int);
} bash_input;
extern int default_buffered_input;

extern sigjmp_buf top_level;
enum { FORCE_EOF = 1, DISCARD = 2, EXITPROG = 3, ERREXIT = 4, EXITBLTIN = 6 };
enum { BAD_USAGE = 2 };
enum { SEVAL_NOHIST = 0x4, SEVAL_NOFREE = 0x8, SEVAL_RESETLINE = 0x10 };

extern volatile sig_atomic_t interrupt_state;
extern sigset_t top_level_mask;
extern int last_command_exit_value, return_catch_flag, read_but_dont_execute, EOF_Reached, executing, stdin_redir;
extern int current_command_number, just_one_command;
extern int line_number, indirection_level, variable_context, startup_state, want_pending_command, read_from_stdin;
extern int wait_intr_flag, wait_signal_received, array_needs_making, posixly_correct, restricted;
extern int errexit_flag, evalnest, sourcelevel, xtrace_fd, executing_builtin, expand_aliases;
extern int shell_initialized, glob_dot_filenames;
extern WEAK int expaliases_flag, sigalrm_seen;
extern pid_t dollar_dollar_pid, shell_pgrp;
extern time_t shell_start_time;
extern WEAK struct timeval shellstart;
extern char *trap_list[], *dollar_vars[10];
extern struct word_list *rest_of_args;
extern char *the_printed_command_except_trap, *the_current_working_directory, *shell_name, **shell_environment;
extern const char *const dist_version;
extern builtin_function *this_shell_builtin, exec_builtin;

extern int parse_and_execute(char *, const char *, int);
extern int parse_command(void), execute_command(struct command *);
extern void adjust_shell_level(int);
extern void dispose_command(struct command *), dispose_used_env_vars(void), with_input_from_string(char *, const char *);
extern void top_level_cleanup(void), reset_parser(void);
extern WEAK void unlink_fifo_list(void), restore_traps(void);
extern struct command *global_command;
extern void *temporary_env;
extern void exit_shell(int);
extern WEAK void reset_local_contexts(void);
extern void dispose_var_context(struct scope *);
extern int run_exit_trap(void), signal_is_trapped(int), change_flag(int, int);
extern void run_trap_cleanup(int), restore_default_signal(int), set_pipestatus_from_exit(int), array_flush(void *);
extern void pop_dollar_vars(void); /* has no effect if none are saved */
extern void set_shellopts(void), set_bashopts(void);
extern WEAK void seedrand(void), seedrand32(void);
extern struct variable *find_function(const char *);
extern struct variable *find_variable(const char *), *find_global_variable_noref(const char *);
extern struct variable *bind_global_variable(const char *, char *, int);
extern int unbind_variable_noref(const char *);
extern void stupidly_hack_special_variables(char *);
extern char *set_working_directory(char *);
extern char *sh_single_quote(const char *);
extern char *named_function_string(char *, void *, int);
extern struct variable **all_shell_variables(void), **all_shell_functions(void);
extern struct word *make_word(const char *);
extern struct word_list *make_word_list(struct word *, struct word_list *), *list_rest_of_args(void);
extern builtin_function *builtin_address(const char *);
extern struct builtin *builtin_address_internal(const char *, int);

#endif
