# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The steps that quickstart and run-tests share: say what is done, install packages, build. Sourced,
# with $top set to the top of the source tree.
: "${top:?}"

step() { # TEXT...: announce it, with the seconds since the start
  printf '[%4ds] %s\n' "$SECONDS" "$*"
}

die() { # TEXT...
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# --- packages ---------------------------------------------------------------------------------------

packages_for() { # PURPOSE...: from contrib/packages
  local purpose
  for purpose; do awk -v p="$purpose" '!/^#/ && $2 == p { print $1 }' "$top/contrib/packages"; done
}

missing_packages() { # PURPOSE...
  local package
  for package in $(packages_for "$@"); do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      echo "$package"
  done
}

install_packages() { # PURPOSE...
  local missing
  if ! command -v dpkg-query >/dev/null; then
    step "this is neither Debian nor Ubuntu: contrib/packages lists what must be there"
    return
  fi
  readarray -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] || die "these packages are missing, and only root can install them: ${missing[*]}"
  step "installing packages: ${missing[*]}"
  apt_get update || die "apt-get update failed; the reason is above"
  apt_get install --no-install-recommends "${missing[@]}" ||
    die "apt-get install failed; the reason is above"
}

apt_get() {
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=600 "$@" </dev/null >&2
}

# --- building ---------------------------------------------------------------------------------------

make_configure() { # a clone has no configure script
  [ -x "$top/configure" ] || (cd "$top" && ./autogen.sh)
}

configure_in() { # FOLDER [CONFIGURE_ARG...]: outside the source tree; quick when nothing changed
  local folder=$1
  shift
  mkdir -p "$folder"
  [ ! -e "$folder/config.status" ] || [ "$(cat "$folder/configured" 2>/dev/null)" != "$*" ] || return 0
  (cd "$folder" && "$top/configure" -q "$@") && echo "$*" >"$folder/configured"
}

# The log of a step that failed is shown from its end, where the reason is.
logged() { # LOG COMMAND...
  local log=$1
  shift
  mkdir -p "${log%/*}"
  "$@" </dev/null >"$log" 2>&1 || { tail -n 30 "$log" >&2; echo "the whole log is $log" >&2; return 1; }
}
