# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Which GPU and NIC each PE of a job gets, on nodes that are described (two-cores.xml: on each of two
# sockets a core and two switches with a GPU and a NIC) and whose GPUs are pretended (test/standin).
# Each PE of such a job says where its memory is; the library says what it chose.
need_cluster
[ -x test/job/seats ] || skip_all "built without CUDA"

export HWLOC_XMLFILE=$top_srcdir/test/data/topologies/two-cores.xml
export NVSHMEM_CUDA_PATH=$PWD/test/standin NVSHMEM_SYMMETRIC_SIZE=8M
export NVSHMEM_DEBUG=INFO NVSHMEM_DEBUG_SUBSYS=TOPO
export STANDIN_GPUS=4 STANDIN_PCI=0000:03:00.0,0000:08:00.0,0000:0d:00.0,0000:12:00.0
seats=$(program_path seats)

# bound LIST...: on processors of this list, the first task of a node on the first
bound() { printf 'set -- %s; eval "exec taskset -c \\${$((SLURM_LOCALID + 1))} %s"' "$*" "$seats"; }
on() { says "PE $1: memory on $2, current $3"; }
gpus() { # ADDRESS...: PE by PE, which is also made current
  local pe=0 gpu
  for gpu; do on $pe "0000:$gpu:00.0" "0000:$gpu:00.0" || return; pe=$((pe + 1)); done
}
chose() { warns "local PE $1: GPU 0000:$2:00.0, NICs \"$3\""; }

job srun -N1 -n4 -- seats
check "four PEs, four GPUs: one each" gpus 03 08 0d 12
check "and they work" exited_with 0
job srun -N1 -n2 -- seats
check "two PEs, four GPUs: one each" gpus 03 08
job srun -N1 -n6 -- seats
check "six PEs, four GPUs: they go round" gpus 03 08 0d 12 03 08
check "and it is said that they share" warns 'local PE 4: GPU 0000:03:00.0.*shared by 2 PEs'
job srun -N1 -n1 -- seats
check "one PE takes the first" gpus 03
STANDIN_GPUS=1 job srun -N1 -n3 -- seats
check "three PEs share the only one" gpus 03 03 03

if [ "$(nproc)" -ge 2 ]; then
  job srun -N1 -n4 -- sh -c "$(bound 1 0 1 0)"
  check "bound to sockets, each gets a GPU of its own" gpus 0d 03 12 08
  check "with the NIC beside it" eval 'chose 0 0d mlx5_2:1 && chose 1 03 mlx5_0:1 && chose 2 12 mlx5_3:1 && chose 3 08 mlx5_1:1'
  job srun -N1 -n4 -- sh -c "$(bound 1 1 1 1)"
  check "four PEs on one socket: still one each" gpus 03 08 0d 12
  job srun -N2 -n4 -- sh -c "$(bound 1 0)"
  check "on two nodes each node is a world of its own" gpus 0d 08 0d 08
  check "with the NIC beside each GPU" eval 'count 2 "local PE 0: GPU 0000:0d:00.0, NICs .mlx5_2:1" "$err" && count 2 "local PE 1: GPU 0000:08:00.0, NICs .mlx5_1:1" "$err"'
  check "and data passes between them" exited_with 0
  NVSHMEM_HEAP_KIND=SYSMEM job srun -N2 -n4 -- sh -c "$(bound 1 0)"
  check "host memory: the NICs near the processors" eval 'count 2 "local PE 0: GPU none, NICs .mlx5_2:1,mlx5_3:1" "$err" && count 2 "local PE 1: GPU none, NICs .mlx5_1:1,mlx5_0:1" "$err"'
  check "and the memory is of the host" on 0 host none
fi

job srun -N2 -n8 -- seats
check "two nodes, four GPUs on each: one each" gpus 03 08 0d 12 03 08 0d 12
job srun -N2 -n5 -- seats
check "three PEs and two" gpus 03 08 0d 03 08

# NICs as the user wants them: PEs are counted on each node.
NVSHMEM_HCA_PE_MAPPING=mlx5_3:1:1,mlx5_0:1:1 job srun -N2 -n4 -- seats
check "a mapping counts on each node from 0" eval 'count 2 "local PE 0: GPU 0000:03:00.0, NICs .mlx5_3:1\"" "$err" && count 2 "local PE 1: GPU 0000:08:00.0, NICs .mlx5_0:1\"" "$err"'
NVSHMEM_HCA_PE_MAPPING=mlx5_3:1:1,mlx5_0:1:1 job srun -N2 -n5 -- seats
check "and says where it begins again" count 1 'serves 2 of the 3 PEs of this node \(PEs are counted on each node from 0\)' "$err"
NVSHMEM_ENABLE_NIC_PE_MAPPING=1 NVSHMEM_HCA_LIST=mlx5_2,mlx5_1 job srun -N2 -n4 -- seats
check "a list is dealt in its order" eval 'count 2 "local PE 0: .*NICs .mlx5_2:1\"" "$err" && count 2 "local PE 1: .*NICs .mlx5_1:1\"" "$err"'
NVSHMEM_HCA_LIST=mlx5_7 job srun -N2 -n4 -- seats
check "a NIC that is not there ends the job" failed
check "with those that are" warns 'NVSHMEM_HCA_LIST names mlx5_7, which this node does not have; it has mlx5_0:1, mlx5_1:1'
HWLOC_XMLFILE=$top_srcdir/test/data/topologies/renamed-h100.xml STANDIN_GPUS=8 \
  STANDIN_PCI=0000:03:00.0,0000:08:00.0,0000:0d:00.0,0000:12:00.0,0000:19:00.0,0000:1e:00.0,0000:23:00.0,0000:28:00.0 job srun -N2 -n16 -- seats
check "eight GPUs, eight NICs of any name: one each" eval 'gpus 03 08 0d 12 19 1e 23 28 03 && [ "$(grep -o "NICs \"[^\"]*\"" "$err" | sort | uniq -c | grep -c " 2 NICs \"[^,]*\"$")" = 8 ]'
HWLOC_XMLFILE=$top_srcdir/test/data/topologies/workstation.xml STANDIN_PCI=0000:01:00.0,0000:02:00.0 STANDIN_GPUS=2 job srun -N2 -n4 -- seats
check "no NIC: the job runs" eval 'exited_with 0 && count 4 "NICs ..,.*no NIC: the node has no RDMA device" "$err"'

# The program's own choice.
job srun -N1 -n2 -- seats before 2
check "a device that is current is adopted, by all that have one" gpus 0d 0d
job srun -N1 -n4 -- sh -c "[ \$SLURM_PROCID = 1 ] || exec $seats; exec $seats before 0"
check "the others leave it alone" gpus 08 03 0d 12
check "and the reason is said" warns 'local PE 1: GPU 0000:03:00.0.*in use by the program already'
job srun -N1 -n3 -- seats after local
check "chosen after init as everybody does: it is the same" eval 'exited_with 0 && gpus 03 08 0d && not warns "has made GPU"'
job srun -N1 -n2 -- seats after 3
check "chosen after init, another one: said once a PE" count 2 'symmetric memory of this PE is on GPU [01] .*has made GPU 3 current' "$err"
check "and it works" exited_with 0

# What the job leaves visible.
CUDA_VISIBLE_DEVICES=3,1 job srun -N1 -n2 -- seats
check "CUDA_VISIBLE_DEVICES leaves two, in its order" gpus 12 08
CUDA_VISIBLE_DEVICES=3,1 job srun -N1 -n2 -- seats after local
check "which is what a program gets that chooses by its number" eval 'gpus 12 08 && not warns "has made GPU"'
per_task="CUDA_VISIBLE_DEVICES=\$((3 - SLURM_LOCALID)) exec $seats"
job srun -N1 -n4 -- sh -c "$per_task"
check "one per task, as Slurm binds: each takes its own" gpus 12 0d 08 03
check "as the only one" warns 'local PE 2: GPU 0000:08:00.0.*the only GPU visible'
check "peers' memory is mapped where the driver allows it" eval 'exited_with 0 && not warns "gpu-bind"'
STANDIN_FAIL=hidden job srun -N1 -n4 -- sh -c "$per_task"
check "hidden peers: named, once" count 1 'GPUs of other PEs of this node are hidden here: 0000:.*local PE [0-3]' "$err"
check "with the srun option" warns 'srun --gpu-bind=none'
check "and the job works" eval 'exited_with 0 && gpus 12 0d 08 03'
STANDIN_FAIL=no-p2p job srun -N1 -n2 -- seats
check "no P2P is no hidden GPU" eval 'exited_with 0 && not warns gpu-bind'
STANDIN_FAIL=hidden job srun -N2 -n4 -- sh -c "CUDA_VISIBLE_DEVICES=\$SLURM_LOCALID exec $seats"
check "hidden on two nodes: named once a node" count 2 'hidden here' "$err"
job srun -N1 -n2 -- sh -c "[ \$SLURM_PROCID = 0 ] || export NVSHMEM_HEAP_KIND=SYSMEM; exec $seats"
check "one PE without GPU memory: host memory for all, with the reason" eval 'exited_with 0 && on 0 host none && on 1 host none && warns "PE 0 .*has GPU memory, PE 1 .*has none"'

# The threads that serve GPU memory are helpers, too.
STANDIN_FAIL=no-p2p HWLOC_XMLFILE='' job srun -N1 -n2 -- helpers core
check "an agent leaves the program's only core" exited_with 0
STANDIN_FAIL=no-p2p HWLOC_XMLFILE='' NVSHMEM_HELPER_CPUS=any job srun -N1 -n2 -- helpers any
check "unless it may run anywhere" exited_with 0

# MIG: two instances of one GPU have its address.
STANDIN_PCI=0000:03:00.0,0000:03:00.0,0000:0d:00.0,0000:0d:00.0 job srun -N1 -n4 -- seats
check "instances of one GPU: every GPU is used" eval 'gpus 03 0d 03 0d && exited_with 0'
