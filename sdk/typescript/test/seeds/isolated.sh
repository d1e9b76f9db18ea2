#!/usr/bin/env bash
# Runs a server, and a program beside it, in pid, mount and network namespaces of their own: the root has a folder /app, and
# every port is free. Everything ends with this script.
# Usage: isolated.sh FOLDER SANDCRAB PROGRAM [ARGUMENTS]    FOLDER has the folders bin (first in PATH) and workspace
#        isolated.sh --check                                tells whether this machine allows it
set -euo pipefail
# pivot_root is there, which is not in the PATH of every user.
PATH=$PATH:/usr/sbin:/sbin

# A root of its own, in which /app can be created: a memory file system with the entries of the old one.
change_root() {
  local root=$1 entry
  mkdir "$root"
  mount -t tmpfs tmpfs "$root"
  for entry in /*; do
    # The examples write to a folder /app of their own.
    if [[ $entry == /app ]]; then
      continue
    elif [[ -L $entry ]]; then
      cp --no-dereference "$entry" "$root$entry"
    elif [[ -d $entry ]]; then
      mkdir "$root$entry"
      mount --rbind "$entry" "$root$entry"
    fi
  done
  mkdir -p "$root/app" "$root/.old"
  cd "$root"
  pivot_root . .old
  umount --lazy /.old
}

inside() {
  local folder=$1 server=$2 code=0
  shift 2
  change_root "$folder/root"
  cd "$folder"
  # In a new network namespace the loopback device is down.
  python3 - <<'PYTHON'
import fcntl, socket, struct
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
PYTHON
  export SANDCRAB_URL=http://127.0.0.1:7070
  PATH=$folder/bin:$PATH HOME=$folder "$server" serve --no-auth --listen "${SANDCRAB_URL#http://}" \
    --state-dir "$folder/state" --workspace "$folder/workspace" --stop-executions --stop-grace 2s >"$folder/log" 2>&1 &
  local pid=$!
  until grep -q listening "$folder/log"; do
    kill -0 "$pid"
    sleep 0.05
  done
  "$@" || code=$?
  kill "$pid"
  wait "$pid" || true
  return "$code"
}

case ${1-} in
  --inside)
    shift
    inside "$@"
    exit
    ;;
  --check) what=(true) ;;
  *) what=("${BASH_SOURCE[0]}" --inside "$@") ;;
esac
namespaces=(--pid --fork --kill-child --mount --mount-proc --net)
if (( EUID )); then namespaces+=(--user --map-root-user); fi
exec unshare "${namespaces[@]}" "${what[@]}"
