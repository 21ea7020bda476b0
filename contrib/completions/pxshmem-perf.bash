# SPDX-License-Identifier: BSD-3-Clause
# Completion of pxshmem-perf for bash.
_pxshmem_perf() {
  case ${COMP_WORDS[COMP_CWORD - 1]} in
    -r) COMPREPLY=() ;;
    *) mapfile -t COMPREPLY < <(compgen -W "-r --init --raw-init --help" -- "${COMP_WORDS[COMP_CWORD]}") ;;
  esac
}
complete -F _pxshmem_perf pxshmem-perf
