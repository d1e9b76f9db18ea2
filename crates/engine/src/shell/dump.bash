# Prints a snapshot of the shell whose subshell sources this. A preceding line sets the last status.
# In POSIX mode no function hides `unset`. The mode changes some options, which are restored.
__sandcrab=("$__sandcrab_status" "$-" "$(POSIXLY_CORRECT=; \unset -f typeset; \typeset -f alias builtin cd declare enable set shopt trap umask unalias unset)" \
  "$([[ -o posix ]] || { POSIXLY_CORRECT=; \unset -f unset; \unset -v POSIXLY_CORRECT; }; \unset -f trap; \trap -p)" ":$BASHOPTS:") 2>/dev/null
[[ -o posix ]] || { POSIXLY_CORRECT=; \unset -f unset; \unset -v POSIXLY_CORRECT; } 2>/dev/null
\unset -f alias builtin compgen declare enable mapfile printf set shopt trap umask unset 2>/dev/null
for __sandcrab_name in expand_aliases inherit_errexit interactive_comments shift_verbose sourcepath; do
  case ${__sandcrab[4]} in *:$__sandcrab_name:*) \shopt -s $__sandcrab_name ;; *) \shopt -u $__sandcrab_name ;; esac
done 2>/dev/null
\trap - DEBUG ERR RETURN
\set +eux
\printf '# status %d\n' "${__sandcrab[0]}"
\declare -f
\printf '{\ncd -- %q\n' "$PWD"
# Assigning to a variable with one of these attributes changes the value, or fails: they come after the value.
__sandcrab_converting=$'\n'$(\declare -pi; \declare -pl; \declare -pu; \declare -pc)$'\n'
\mapfile -t __sandcrab_names < <(\compgen -v)
# In groups: bash runs a list of commands by recursion, as deep as the list is long. No group is empty, which would be
# a syntax error.
\printf '{\n'
__sandcrab_count=0
for __sandcrab_name in "${__sandcrab_names[@]}"; do
  case $__sandcrab_name in
    BASH | BASHOPTS | BASHPID | BASH_ALIASES | BASH_ARG[CV] | BASH_ARGV0 | BASH_CMDS | BASH_COMMAND) ;;
    BASH_COMPAT | IGNOREEOF | POSIXLY_CORRECT | BASH_EXECUTION_STRING | BASH_LINENO | BASH_MONOSECONDS | BASH_SOURCE | BASH_SUBSHELL | BASH_VERSINFO) ;;
    BASH_VERSION | COMP_WORDBREAKS | DIRSTACK | EPOCHREALTIME | EPOCHSECONDS | EUID | FUNCNAME | GROUPS) ;;
    HISTCMD | LINENO | MAPFILE | PIPESTATUS | PPID | RANDOM | SECONDS | SHELLOPTS | SRANDOM | UID | _ | __sandcrab*) ;;
    *)
      if [[ $__sandcrab_converting == *" $__sandcrab_name"[=$'\n']* ]]; then
        __sandcrab_value=$(\declare -p -- "$__sandcrab_name")
        __sandcrab_flags=${__sandcrab_value#declare -}
        __sandcrab_flags=${__sandcrab_flags%% *}
        __sandcrab_early=${__sandcrab_flags//[cilru]/}
        __sandcrab_late=${__sandcrab_flags//[!cilru]/}
        \printf 'declare -%s %s\n' "${__sandcrab_early:--}" "${__sandcrab_value#declare -* }"
        [[ -z $__sandcrab_late ]] || \printf 'declare -%s %s\n' "$__sandcrab_late" "$__sandcrab_name"
      else
        \declare -p -- "$__sandcrab_name"
      fi
      ;;
  esac
  ((++__sandcrab_count % 256)) || \printf 'set --\n}\n{\n'
done
\printf 'set --\n}\n'
# The directory may not exist by then.
\printf '[[ $PWD -ef . ]] || cd .\n'
\printf 'set --'
(($# == 0)) || \printf ' %q' "$@"
\printf '\n'
\umask -p
\alias -p
[[ ! -o posix ]] || \printf 'set -o posix\n'
\shopt -p
\set +o
[[ -o posix ]] || \shopt -p expand_aliases shift_verbose
[[ -v BASH_COMPAT ]] || \printf 'unset -v BASH_COMPAT\n'
\declare -p BASH_COMPAT IGNOREEOF POSIXLY_CORRECT 2>/dev/null
\enable -n
case ${__sandcrab[1]} in *u*) \printf 'set -u\n' ;; esac
case ${__sandcrab[1]} in *x*) \printf 'set -x\n' ;; esac
case ${__sandcrab[1]} in *e*) \printf 'set -e\n' ;; esac
case ${__sandcrab[1]} in *r*) \printf 'set -r\n' ;; esac
[[ -z ${__sandcrab[3]} ]] || \printf '%s\n' "${__sandcrab[3]}"
[[ -z ${__sandcrab[2]} ]] || \printf '%s\n' "${__sandcrab[2]}"
\printf '}\n# end\n'
