/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * exec.c: sends the shell's state before `exec` replaces the shell.
 *
 * Bash has no hook for that. But it decrements SHLVL first, and a function of the object provides that variable's value;
 * if the shell could not be replaced, bash increments it again. `exec -c` does not decrement it, and in 4.4 `builtin exec`
 * cannot be recognised as `exec`. So bash's call of execve is intercepted too. That is the second choice: by then bash has
 * reset its signal handlers, and up to 5.1 it has lost the traps.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "object.h"

static int is_handed_on; /* the state was sent, since the shell is about to be replaced */

static int is_replacing(void)
{
    return running && is_session && getpid() == shell;
}

static void hand_on(int done)
{
    is_handed_on = 1;
    signals_changed = 1;
    send_state(-1, done);
}

static void take_back(void)
{
    is_handed_on = 0;
    try_report(STATE, 0, 0);
}

static struct variable *before_exec(struct variable *variable)
{
    if (!is_replacing() || !executing_builtin || this_shell_builtin != exec_builtin)
        return variable;
    if (is_handed_on)
        take_back();
    else
        hand_on(0);
    return variable;
}

/* Called before each command: the variable may have been replaced. */
void watch_for_exec(void)
{
    is_handed_on = 0;
    struct variable *level = find_global_variable_noref("SHLVL");
    if (level && !level->dynamic_value)
        level->dynamic_value = before_exec;
}

static int execve_of_bash(const char *path, char *const words[], char *const variables[])
{
    if (!is_replacing() || is_handed_on)
        return execve(path, words, variables);
    hand_on(TRAPS_ASIDE | (*variables ? COUNTED_DOWN : 0));
    execve(path, words, variables);
    int error = errno;
    if (error != ENOEXEC) /* otherwise bash itself may run the program as a script */
        take_back();
    errno = error;
    return -1;
}

/* --- the entry of execve in bash's offset table ------------------------------------------------------ */

static const ElfW(Phdr) *find_segment(const struct dl_phdr_info *program, uint32_t type)
{
    for (int i = 0; i < program->dlpi_phnum; i++)
        if (program->dlpi_phdr[i].p_type == type)
            return &program->dlpi_phdr[i];
    return NULL;
}

/* The loader has added the base address to these, but not on all machines. */
static uintptr_t address(const struct dl_phdr_info *program, uintptr_t value)
{
    return value < program->dlpi_addr ? value + program->dlpi_addr : value;
}

static void set_slot(const struct dl_phdr_info *program, uintptr_t slot, void *function)
{
    uintptr_t page = sysconf(_SC_PAGESIZE), first = slot & ~(page - 1), length = slot + sizeof function - first;
    const ElfW(Phdr) *read_only = find_segment(program, PT_GNU_RELRO);
    uintptr_t begin = read_only ? program->dlpi_addr + read_only->p_vaddr : 0;
    int was_read_only = read_only && slot >= begin && slot < begin + read_only->p_memsz;
    if (was_read_only && mprotect((void *)first, length, PROT_READ | PROT_WRITE) < 0)
        return;
    memcpy((void *)slot, &function, sizeof function);
    if (was_read_only)
        mprotect((void *)first, length, PROT_READ);
}

/* The first loaded program is bash itself. */
static int find_slots(struct dl_phdr_info *program, size_t size, void *unused)
{
    (void)size, (void)unused;
    const ElfW(Phdr) *segment = find_segment(program, PT_DYNAMIC);
    if (!segment)
        return 1;
    uintptr_t relocations = 0, bytes = 0, symbols = 0, names = 0;
    for (const ElfW(Dyn) *entry = (void *)(program->dlpi_addr + segment->p_vaddr); entry->d_tag != DT_NULL; entry++)
        switch (entry->d_tag) {
        case DT_JMPREL: relocations = address(program, entry->d_un.d_ptr); break;
        case DT_PLTRELSZ: bytes = entry->d_un.d_val; break;
        case DT_SYMTAB: symbols = address(program, entry->d_un.d_ptr); break;
        case DT_STRTAB: names = address(program, entry->d_un.d_ptr); break;
        case DT_PLTREL:
            if (entry->d_un.d_val != DT_RELA)
                return 1;
        }
    if (!relocations || !symbols || !names)
        return 1;
    const ElfW(Rela) *relocation = (void *)relocations;
    for (size_t i = 0; i < bytes / sizeof *relocation; i++) {
        const ElfW(Sym) *symbol = (const ElfW(Sym) *)symbols + ELF64_R_SYM(relocation[i].r_info);
        if (strcmp((const char *)names + symbol->st_name, "execve") == 0)
            set_slot(program, program->dlpi_addr + relocation[i].r_offset, execve_of_bash);
    }
    return 1;
}

void intercept_exec(void)
{
    dl_iterate_phdr(find_slots, NULL);
}
