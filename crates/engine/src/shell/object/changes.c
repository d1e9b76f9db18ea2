/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * changes.c: a command's own environment and directory, which are reverted afterwards.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "object.h"

static struct change {
    char *name;
    int existed;
    struct variable was;
} *changes;
static int change_count;
int old_directory = -1;
static char *old_directory_name;
static void *mapped;
static size_t mapped_length;

static char *copy(const char *text)
{
    char *new = malloc(strlen(text) + 1);
    return new ? strcpy(new, text) : NULL;
}

/* Makes the variable an exported one with this value, or removes it, whatever it was. An assignment is
 * not enough: it may be readonly, an array, a nameref or an integer. */
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

/* Saves a variable, and moves its contents away so that they are not freed. */
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
            variable->dynamic_value = NULL, variable->assign_func = NULL, variable->attributes = 0;
    }
    return variable;
}

void put_back(void)
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

/* Variables that bash sets by itself, whatever is in its environment. Among them the directory: a session's command that
 * was given another one and uses `cd` would leave a wrong one behind. */
static const char *const not_given[] = {
    "BASH", "BASHOPTS", "BASHPID", "BASH_ALIASES", "BASH_CMDS", "BASH_COMMAND", "BASH_EXECUTION_STRING", "BASH_SUBSHELL",
    "BASH_VERSINFO", "BASH_VERSION", "COMP_WORDBREAKS", "EPOCHREALTIME", "EPOCHSECONDS", "HISTCMD", "LINENO", "PPID", "PWD",
    "RANDOM", "SHELLOPTS", "SRANDOM", NULL,
};

/* Applies the changes before the text and returns the text; NULL if the directory cannot be entered. */
char *apply_changes(char *body, uint32_t flags)
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
        if (lasting || !is_one_of(name, not_given))
            set_variable(lasting ? find_global_variable_noref(name) : set_aside(name, 0), name, equals ? equals + 1 : NULL);
        if (equals)
            at = equals + 1; /* past the inserted NUL */
    }
    return text;
}

/* The body of a request that was too large for a packet. */
char *map_body(int fd)
{
    mapped_length = request->length;
    mapped = mmap(NULL, mapped_length, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (mapped == MAP_FAILED)
        mapped = NULL;
    return mapped;
}

/* Ends every call of a function after a jump out of it. Before 5.2 bash itself sets `variable_context` to 0 and leaves the
 * variables. */
void leave_functions(void)
{
    if (!variable_context && shell_variables == global_variables)
        return;
    if (reset_local_contexts) {
        reset_local_contexts();
        return;
    }
    while (shell_variables != global_variables) {
        struct scope *inner = shell_variables;
        shell_variables = inner->down;
        dispose_var_context(inner);
    }
    variable_context = 0;
}

enum { MAX_CALLS = 1 << 16 };

/* Under errexit bash drops the calls of functions instead of returning from them, and an exiting shell does not return
 * from them either: the positional parameters around them are still saved, and the attributes of some local variables
 * still apply. */
void undo_forgotten_calls(void)
{
    static char *const kept[] = {
        "IFS", "PATH", "LANG", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "TZ", "GLOBIGNORE",
    };
    for (int i = 0; i < MAX_CALLS; i++)
        pop_dollar_vars();
    int dotglob = glob_dot_filenames;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        stupidly_hack_special_variables(kept[i]);
    if (!find_global_variable_noref("GLOBIGNORE")) /* without it bash turns the option off */
        glob_dot_filenames = dotglob;
}
