# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# What job tests are written with: start a job, then look at its exit status and at what it printed.
# For test/job/run and the stories (test/job/*.t) that it sources, all of which run in the top build
# directory.
#
#   job LAUNCHER -- PROGRAM [ARG...]   sets $status, $out and $err (two files); the limit is $limit
#                                      seconds; with client=5 the program uses a libpmix 5
#   job_start / job_wait               the same in two halves, to do something to a running job
#   check DESCRIPTION COMMAND...       one test, passed when COMMAND succeeds; a failure shows the job
#   skip_all REASON                    for a story that cannot run here
#   need_cluster, need LAUNCHER, need_network   skip the story where there is none
#   $(four_pes)                        a launcher: on two nodes where this build can
#
# COMMAND: exited_with N, failed (by itself), hung (ended by the limit), says REGEX (stdout), warns
# REGEX (stderr), silent (no stderr), count N REGEX FILE, at_most N REGEX FILE, not COMMAND, any
# other.
#
# LAUNCHER: srun ARGS, pmi2 ARGS (srun --mpi=pmi2), mpirun ARGS, salloc ARGS (an allocation with
# mpirun inside it), pmix5 ARGS (mpirun of a PMIx 5), hydra ARGS (mpiexec of MPICH), alone.

: "${top_srcdir:?}"
scratch=$PWD/test/job/scratch
limit=60 client=''
vcluster=$top_srcdir/contrib/vcluster
pmix5=$top_srcdir/contrib/pmix5

say() { printf '# %s\n' "$*"; }

# --- what this machine can do ---------------------------------------------------------------------

cluster_reason() { # prints why there is no Slurm cluster; nothing when there can be one
  local tool
  [ "$(id -u)" = 0 ] || { echo "a Slurm cluster needs root"; return; }
  for tool in slurmctld slurmd srun munged ip nsenter; do
    PATH=$PATH:/usr/sbin:/sbin command -v $tool >/dev/null || { echo "a Slurm cluster needs $tool"; return; }
  done
}

launcher_reason() { # LAUNCHER: prints why it cannot be used here
  case $1 in
    srun) echo "$no_cluster" ;;
    pmi2)
      if [ -n "$no_cluster" ]; then echo "$no_cluster"
      else grep -Eq '^#define PX_HAVE_PMI2 1' config.h || echo "built without libpmi2"; fi ;;
    salloc) if [ -n "$no_cluster" ]; then echo "$no_cluster"; else launcher_reason mpirun; fi ;;
    mpirun) command -v mpirun >/dev/null || echo "no mpirun (Debian: openmpi-bin)" ;;
    pmix5) { "$pmix5" lib >/dev/null; } 2>&1 ;;
    hydra) command -v mpiexec.hydra >/dev/null || echo "no mpiexec.hydra (Debian: mpich)" ;;
    alone) ;;
    *) echo "no launcher is called $1" ;;
  esac
}

network_reason() { # prints why PEs that share no memory cannot talk in this build
  grep -Eq '^#define PX_HAVE_(LIBFABRIC|LIBIBVERBS) 1' config.h || echo "built without a network library"
}

# Four PEs on as many nodes as this build lets them talk from: for what is the same on one node and on several.
four_pes() {
  if [ -z "$(network_reason)" ]; then echo srun -N2 -n4; else echo srun -N1 -n4; fi
}

# One cluster serves all jobs of a build directory; its name comes from there, so the next run finds
# one that a crash left.
start_cluster() { # [NODES]
  VC_NAME=job-$(pwd -P | cksum | cut -d' ' -f1)
  export VC_NAME
  no_cluster=$(cluster_reason)
  [ -z "$no_cluster" ] || { say "no cluster: $no_cluster"; return 0; }
  "$vcluster" up "${1:-3}" || { echo "Bail out! the Slurm cluster does not start"; exit 1; }
}

stop_cluster() { # and drop what the jobs printed; a failed check has shown it
  [ -n "$no_cluster" ] || "$vcluster" down
  rm -rf "$scratch"
}

# --- jobs -----------------------------------------------------------------------------------------

# A program is looked for among the built ones. What libtool put beside it is started instead of its
# wrapper script, which is not made for many processes at once.
program_path() { # PROGRAM
  local path=$PWD/test/job/$1
  case $1 in
    */*) path=$1 ;;
  esac
  local real=${path%/*}/.libs/${path##*/}
  if [ -x "$real" ]; then echo "$real"; elif [ -x "$path" ]; then echo "$path"; else command -v "$1"; fi
}

job_start() { # LAUNCHER... -- PROGRAM [ARG...]; the environment of the caller reaches the job
  local launcher=$1 words=() program
  shift
  while [ "$1" != -- ]; do words+=("$1"); shift; done
  shift
  program=$(program_path "$1") || { say "there is no program $1"; return 1; }
  shift
  set -- "$program" "$@"
  [ "${client:-}" != 5 ] || set -- env LD_LIBRARY_PATH="$("$pmix5" lib):$PWD/.libs" "$@"
  case $launcher in
    srun) set -- "$vcluster" run "${words[@]}" "$@" ;;
    pmi2) set -- "$vcluster" run --mpi=pmi2 "${words[@]}" "$@" ;;
    salloc) set -- "$vcluster" exec timeout --kill-after=10 "$limit" salloc -Q "${words[@]}" mpirun "$@" ;;
    mpirun) set -- mpirun --oversubscribe --bind-to none "${words[@]}" "$@" ;;
    pmix5) set -- "$pmix5" run --oversubscribe --bind-to none "${words[@]}" "$@" ;;
    hydra) set -- mpiexec.hydra "${words[@]}" "$@" ;;
    alone) ;;
  esac
  mkdir -p "$scratch"
  out=$scratch/out err=$scratch/err
  (
    export LD_LIBRARY_PATH="$PWD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # In the cluster the limit is kept beside srun, so that nothing of the job is left when it
    # returns.
    case $launcher in
      srun | pmi2) VC_LIMIT=$limit exec "$@" ;;
      salloc) exec "$@" ;;
      *) exec timeout --kill-after=10 "$limit" "$@" ;;
    esac
  ) </dev/null >"$out" 2>"$err" &
  job_pid=$! job_began=$SECONDS
}

job_wait() {
  status=0 timed_out=''
  wait "$job_pid" || status=$?
  case $status in
    124 | 137) # timeout's, but also that of a task that was killed
      [ $((SECONDS - job_began)) -lt "$limit" ] || timed_out="ran past the limit of $limit seconds" ;;
  esac
}

job() { if job_start "$@"; then job_wait; else status=127; fi; }

# --- tests ----------------------------------------------------------------------------------------

exited_with() { [ "$status" -eq "$1" ]; }
failed() { [ "$status" -ne 0 ] && [ -z "$timed_out" ]; }
hung() { [ -n "$timed_out" ]; }
says() { grep -Eq -- "$1" "$out"; }
warns() { grep -Eq -- "$1" "$err"; }
silent() { [ ! -s "$err" ]; }
not() { ! "$@"; }
count() { [ "$(grep -Ec -- "$2" "$3")" -eq "$1" ]; }
at_most() { [ "$(grep -Ec -- "$2" "$3")" -le "$1" ]; }

check() { # DESCRIPTION COMMAND...
  local description=$1
  shift
  if "$@"; then
    echo "ok - $description"
    return
  fi
  echo "not ok - $description"
  say "this failed: $*"
  show_job
}

show_job() { # what the last job printed, for whoever reads the log
  say "exit status ${status:-none} ${timed_out:-}"
  [ ! -s "${out:-}" ] || tail -n 40 "$out" | sed 's/^/# stdout: /'
  [ ! -s "${err:-}" ] || tail -n 40 "$err" | sed 's/^/# stderr: /'
}

skip_all() { # REASON: ends the story
  echo "ok - # SKIP $1"
  exit 0
}

need() { # LAUNCHER
  local reason
  reason=$(launcher_reason "$1")
  [ -z "$reason" ] || skip_all "$reason"
}

need_cluster() { need srun; }

need_network() {
  local reason
  reason=$(network_reason)
  [ -z "$reason" ] || skip_all "$reason"
}
