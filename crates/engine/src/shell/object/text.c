/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * text.c: runs the text of a session's command as bash runs its standard input: one command after another, like bash's
 * own loop. An error at which bash discards a command does not affect the following ones.
 */
#define _GNU_SOURCE
#include "object.h"

static struct command *current;
static int had_command;

void begin_text(char *text)
{
    reset_parser();
    with_input_from_string(text, "bash");
    EOF_Reached = 0;
    line_number = 0;
    had_command = 0;
    return_catch_flag = 0;
}

static void run_one(struct command *command)
{
    had_command = 1;
    global_command = NULL;
    if (read_but_dont_execute) {
        dispose_command(command);
        return;
    }
    current = command;
    current_command_number++;
    executing = 1;
    stdin_redir = 0;
    execute_command(command);
    current = NULL;
    dispose_command(command);
}

/* Runs the rest of the text. A jump to `top_level` leaves it. */
void run_text(void)
{
    while (!EOF_Reached) {
        if (unlink_fifo_list)
            unlink_fifo_list();
        executing = 0;
        if (temporary_env)
            dispose_used_env_vars();
        global_command = NULL;
        if (parse_command() != 0) {
            had_command = 1;
            last_command_exit_value = BAD_USAGE; /* bash 5.2 does not set it within [[ ]] */
            EOF_Reached = -1;
        } else if (global_command) {
            run_one(global_command);
        }
        if (interrupt_state)
            siglongjmp(top_level, DISCARD);
        if (just_one_command)
            siglongjmp(top_level, EXITPROG);
    }
    executing = 0;
}

/* A text without a command succeeds, and leaves `$?` alone. */
int text_status(void)
{
    return had_command ? last_command_exit_value : 0;
}

/* After a jump. */
void discard_command(void)
{
    executing = 0;
    had_command = 1;
    if (current)
        dispose_command(current);
    current = NULL;
}
