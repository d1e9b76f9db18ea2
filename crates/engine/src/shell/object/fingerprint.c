/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * fingerprint.c: detects whether the shell's state has changed since it was saved.
 *
 * Saving the state takes a fork and a millisecond of a core; most commands change nothing. So before a snapshot that is
 * needed only after a change, the shell hashes the content of a snapshot. If that is not simple or would take long
 * (arrays, many functions), there is no fingerprint, and the snapshot is taken.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "object.h"

enum {
    MAX_BYTES = 256 * 1024, /* hashing this takes well below a millisecond */
    MAX_FUNCTIONS = 32,
};

/* 64-bit FNV-1a: the state belongs to the user, which gains nothing from a collision. */
struct sum {
    uint64_t value;
    size_t bytes;
};

static void add(struct sum *sum, const void *bytes, size_t length)
{
    sum->bytes += length;
    for (const unsigned char *at = bytes; length && sum->bytes <= MAX_BYTES; length--)
        sum->value = (sum->value ^ *at++) * 0x100000001b3;
}

static void add_text(struct sum *sum, const char *text)
{
    char is_set = text != NULL;
    add(sum, &is_set, 1);
    if (text)
        add(sum, text, strlen(text) + 1);
}

static void add_number(struct sum *sum, int64_t number)
{
    add(sum, &number, sizeof number);
}

static void add_variables(struct sum *sum)
{
    struct variable **variables = all_shell_variables();
    for (int i = 0; variables && variables[i]; i++) {
        struct variable *at = variables[i];
        int is_own = is_own_variable(at->name); /* a snapshot contains only whether it is exported */
        if (is_own && !is_exported_own_variable(at))
            continue;
        if (at->attributes & (ATT_ARRAY | ATT_ASSOC))
            sum->bytes = MAX_BYTES + 1;
        add_text(sum, at->name);
        add_number(sum, at->attributes);
        if (sum->bytes <= MAX_BYTES && !is_own)
            add_text(sum, at->value);
    }
    free(variables);
}

/* The current options, from a variable in which bash lists them. Bash updates it only when `set` or `shopt` changes one,
 * not when another assignment (`GLOBIGNORE`) or posix mode does. Commands can see the variable, so it is not changed. */
static void add_options(struct sum *sum, const char *name, void (*list)(void))
{
    struct variable *variable = find_global_variable_noref(name);
    char *was = variable && variable->value ? strdup(variable->value) : NULL;
    list();
    variable = find_global_variable_noref(name);
    add_text(sum, variable ? variable->value : NULL);
    if (!variable || !was)
        return;
    free(variable->value);
    free(variable->exportstr);
    variable->value = was;
    variable->exportstr = NULL;
}

static void add_functions(struct sum *sum)
{
    struct variable **functions = all_shell_functions();
    for (int i = 0; functions && functions[i]; i++) {
        if (i == MAX_FUNCTIONS)
            sum->bytes = MAX_BYTES + 1;
        if (sum->bytes > MAX_BYTES)
            break;
        add_number(sum, functions[i]->attributes);
        add_text(sum, named_function_string(functions[i]->name, functions[i]->value, 0));
    }
    free(functions);
}

static void add_aliases(struct sum *sum)
{
    struct alias **aliases = all_aliases();
    for (int i = 0; aliases && aliases[i]; i++) {
        add_text(sum, aliases[i]->name);
        add_text(sum, aliases[i]->value);
    }
    free(aliases);
}

static void add_traps(struct sum *sum)
{
    for (int i = 0; i < NSIG + 3; i++)
        if (signal_is_trapped(i)) {
            add_number(sum, i);
            if ((uintptr_t)trap_list[i] > 1) /* neither the default nor ignored */
                add_text(sum, trap_list[i]);
            else
                add_number(sum, (uintptr_t)trap_list[i]);
        }
}

/* 0 if unknown. */
uint64_t state_fingerprint(void)
{
    struct sum sum = { .value = 0xcbf29ce484222325 };
    add_number(&sum, last_command_exit_value);
    add_number(&sum, posixly_correct << 2 | errexit_flag << 1 | restricted);
    add_text(&sum, the_current_working_directory);
    mode_t mask = umask(022);
    umask(mask);
    add_number(&sum, mask);
    for (int i = 1; i < 10; i++)
        add_text(&sum, dollar_vars[i]);
    for (struct word_list *at = rest_of_args; at; at = at->next)
        add_text(&sum, at->word->text);
    for (int i = 0; i < num_shell_builtins; i++)
        add_number(&sum, shell_builtins[i].flags & BUILTIN_ENABLED);
    add_traps(&sum);
    add_aliases(&sum);
    add_variables(&sum);
    add_options(&sum, "SHELLOPTS", set_shellopts);
    add_options(&sum, "BASHOPTS", set_bashopts);
    add_functions(&sum);
    return sum.bytes > MAX_BYTES ? 0 : sum.value | 1;
}
