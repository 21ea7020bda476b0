# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# What users are told about GPU memory, on the pretend GPUs of test/standin: which memory is used and why not another,
# what does not fit, and which pointers are not symmetric.

[ -e test/standin/libcuda.so.1 ] || skip_all "built without CUDA"
export NVSHMEM_CUDA_PATH=$PWD/test/standin NVSHMEM_HEAP_KIND=DEVICE
two_nodes=()
[ -n "$no_cluster$(network_reason)" ] || two_nodes=(srun -N2 -n4)
limit=60

for launcher in "mpirun -n 2" "${two_nodes[*]}"; do
  [ -n "$launcher" ] && [ -z "$(launcher_reason "${launcher%% *}")" ] || continue
  read -ra launch <<<"$launcher"
  STANDIN_MEMORY=0x8000000 job "${launch[@]}" -- gpumem
  check "$launcher: a heap larger than the GPU fails" failed
  check "$launcher: with what was asked and what is free" warns 'Pretend GPU.*has no 256 MiB for the symmetric heap: 124 of its 128 MiB are free'
  STANDIN_MEMORY=0x20000000 job "${launch[@]}" -- gpumem full
  check "$launcher: malloc of more than the GPU has is NULL everywhere" exited_with 0
  check "$launcher: with the GPU's numbers" warns 'nvshmem_malloc: 943718400 bytes do not fit.*of 512 MiB free'
  NVSHMEM_CHECK=1 job "${launch[@]}" -- gpumem foreign
  check "$launcher: memory of cudaMalloc is refused" failed
  check "$launcher: by its kind and the bounds of the heap" \
    warns 'nvshmem_int64_p: dest 0x[0-9a-f]+ .*ordinary memory of GPU 0 \(cudaMalloc\), not symmetric memory \(the heap is 0x[0-9a-f]+ to 0x[0-9a-f]+\)'
  NVSHMEM_CUDA_PATH=$PWD/test/standin STANDIN_FAIL=no-device job "${launch[@]}" -- gpumem
  check "$launcher: DEVICE without a GPU fails" failed
  check "$launcher: with the reason" warns 'NVSHMEM_HEAP_KIND is DEVICE, but there is no GPU memory: the NVIDIA driver shows no GPU'
  NVSHMEM_HEAP_KIND=AUTO NVSHMEM_DEBUG=INFO STANDIN_FAIL=no-device job "${launch[@]}" -- gpumem
  check "$launcher: AUTO without a GPU is host memory" exited_with 0
  check "$launcher: which INFO says" warns 'symmetric memory is host memory: the NVIDIA driver shows no GPU'
  STANDIN_FAIL=address job "${launch[@]}" -- gpumem
  check "$launcher: a GPU that never grants the agreed address serves all the same" exited_with 0
  check "$launcher: with a notice" warns 'symmetric addresses of GPU memory differ between PEs'
done

[ -z "$(launcher_reason mpirun)" ] || skip_all "$(launcher_reason mpirun)"
NVSHMEM_CHECK=1 job mpirun -n 2 -- gpumem peer
check "what nvshmem_ptr gives is no symmetric address" failed
check "which is said, with the one that is" warns "it is PE [01]'s memory as nvshmem_ptr shows it; pass the symmetric address 0x"
