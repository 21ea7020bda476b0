# SPDX-License-Identifier: BSD-3-Clause
# Completion of pxshmem-info for bash.
_pxshmem_info() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  case $before in
    --svg | --topology-file) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    --root) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    --pes | --cpus | --gpus) COMPREPLY=() ;;
    *)
      mapfile -t COMPREPLY < <(compgen -W "--topology --matrix --json --svg --pes --topology-file
        --cpus --gpus --host-memory --check --root --transports --environment --build --version
        --help" -- "$word")
      ;;
  esac
}
complete -F _pxshmem_info pxshmem-info
