/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations. Data is pushed into the members' destinations, then all meet; reductions meet
 * first, then each member reduces its share of the elements from all sources and pushes the result to
 * all, so everyone gets the same bits and source and destination may be the same. half and bfloat16
 * are computed in float and rounded after each step, as on the host. */
#ifndef NVSHMEM_DEVICE_COLL_H
#define NVSHMEM_DEVICE_COLL_H

#include "nvshmem_device/team.h"

namespace nvshmemi
{

/* Each operator is a type, so that the call with its name chooses the code. */
enum op_and { OP_AND };
enum op_or { OP_OR };
enum op_xor { OP_XOR };
enum op_max { OP_MAX };
enum op_min { OP_MIN };
enum op_sum { OP_SUM };
enum op_prod { OP_PROD };
enum op_maxloc { OP_MAXLOC };

/* In the device library (coll.cu), as they know no types. push: bytes to one member, by all threads,
 * without a meeting of them. pull: the other way, and the data is there for all threads. finish:
 * everything is in place at the members, and they have arrived. */
extern __device__ void push(int pe, void *dest, const void *source, size_t bytes, group threads);
extern __device__ void pull(int pe, void *dest, const void *source, size_t bytes, group threads);
extern __device__ void finish(nvshmemi_team *team, group threads);
extern __device__ void broadcast_bytes(nvshmemi_team *team, void *dest, const void *source,
                                       size_t bytes, int root, group threads);
extern __device__ void fcollect_bytes(nvshmemi_team *team, void *dest, const void *source,
                                      size_t bytes, group threads);
extern __device__ void alltoall_bytes(nvshmemi_team *team, void *dest, const void *source,
                                      size_t bytes, group threads);

template <class S>
static __device__ __forceinline__ int broadcast(nvshmem_team_t handle, void *dest,
                                                const void *source, size_t n, size_t size, int root,
                                                S threads)
{
    nvshmemi_team *team = team_of(handle);
    if (!team || root < 0 || root >= size_of(team))
        return -1;
    broadcast_bytes(team, dest, source, n * size, root, threads);
    return 0;
}

template <class S>
static __device__ __forceinline__ int fcollect(nvshmem_team_t handle, void *dest,
                                               const void *source, size_t n, size_t size, S threads)
{
    nvshmemi_team *team = team_of(handle);
    if (!team)
        return -1;
    fcollect_bytes(team, dest, source, n * size, threads);
    return 0;
}

template <class S>
static __device__ __forceinline__ int alltoall(nvshmem_team_t handle, void *dest,
                                               const void *source, size_t n, size_t size, S threads)
{
    nvshmemi_team *team = team_of(handle);
    if (!team)
        return -1;
    alltoall_bytes(team, dest, source, n * size, threads);
    return 0;
}

/* --- reducing --- */

template <class T> struct number {
    typedef T wide;
    static __device__ __forceinline__ T widen(T v)
    {
        return v;
    }
    static __device__ __forceinline__ T narrow(T v)
    {
        return v;
    }
};
template <> struct number<__half> {
    typedef float wide;
    static __device__ __forceinline__ float widen(__half v)
    {
        return __half2float(v);
    }
    static __device__ __forceinline__ __half narrow(float v)
    {
        return __float2half_rn(v);
    }
};
template <> struct number<__nv_bfloat16> {
    typedef float wide;
    static __device__ __forceinline__ float widen(__nv_bfloat16 v)
    {
        return __bfloat162float(v);
    }
    static __device__ __forceinline__ __nv_bfloat16 narrow(float v)
    {
        return __float2bfloat16_rn(v);
    }
};

/* Of two values one of which is not a number, max and min keep the first, as on the host. */
template <class OP> struct arithmetic;
template <> struct arithmetic<op_and> {
    template <class W> static __device__ __forceinline__ W of(W a, W b)
    {
        return a & b;
    }
};
template <> struct arithmetic<op_or> {
    template <class W> static __device__ __forceinline__ W of(W a, W b)
    {
        return a | b;
    }
};
template <> struct arithmetic<op_xor> {
    template <class W> static __device__ __forceinline__ W of(W a, W b)
    {
        return a ^ b;
    }
};
template <> struct arithmetic<op_max> {
    template <class W> static __device__ __forceinline__ W of(W a, W b)
    {
        return b > a ? b : a;
    }
};
template <> struct arithmetic<op_min> {
    template <class W> static __device__ __forceinline__ W of(W a, W b)
    {
        return b < a ? b : a;
    }
};
template <> struct arithmetic<op_sum> {
    template <class W> static __device__ __forceinline__ W of(W a, W b)
    {
        return a + b;
    }
};
template <> struct arithmetic<op_prod> {
    template <class W> static __device__ __forceinline__ W of(W a, W b)
    {
        return a * b;
    }
};

template <class T, class OP> struct combine {
    static __device__ __forceinline__ T of(T a, T b)
    {
        typedef number<T> as;
        return as::narrow((typename as::wide)arithmetic<OP>::of(as::widen(a), as::widen(b)));
    }
};

/* The pair with the larger value; of equal ones the smaller location. */
template <> struct combine<double2, op_maxloc> {
    static __device__ __forceinline__ double2 of(double2 a, double2 b)
    {
        return b.x > a.x || (b.x == a.x && b.y < a.y) ? b : a;
    }
};

/* 16 bytes of elements at once. */
template <class T> union packet {
    uint4 whole;
    T element[16 / sizeof(T)];
    __device__ __forceinline__ packet()
    {
    }
};

template <class T, class OP>
static __device__ __forceinline__ uint4 combine_packets(uint4 a, uint4 b)
{
    packet<T> left, right;
    left.whole = a;
    right.whole = b;
#pragma unroll
    for (unsigned k = 0; k < 16 / sizeof(T); k++)
        left.element[k] = combine<T, OP>::of(left.element[k], right.element[k]);
    return left.whole;
}

template <class T, class OP, class W> struct folded {
    static __device__ __forceinline__ W of(W a, W b)
    {
        return bits<W>(combine<T, OP>::of(bits<T>(a), bits<T>(b)));
    }
};
template <class T, class OP> struct folded<T, OP, uint4> {
    static __device__ __forceinline__ uint4 of(uint4 a, uint4 b)
    {
        return combine_packets<T, OP>(a, b);
    }
};

/* The destinations of a reduction: all members', or this PE's alone. */
struct to_all {
    const nvshmemi_team *team;
    template <class W> __device__ __forceinline__ void put(W *dest, W value) const
    {
#pragma unroll 1
        for (int i = 0; i < size_of(team); i++)
            *at(dest, offset_of(pe_of(team, i))) = value;
    }
};
struct to_me {
    template <class W> __device__ __forceinline__ void put(W *dest, W value) const
    {
        *dest = value;
    }
};

/* Words [0, count) of source, from all members in their order; all mapped. Few registers, as blocks of
 * 1024 threads call this: the loads of two members are under way at once. */
template <class T, class OP, class W, class To>
static __device__ __noinline__ void reduce_words(const nvshmemi_team *team, W *dest,
                                                 const W *source, size_t count, unsigned rank,
                                                 unsigned size, To to)
{
#pragma unroll 1
    for (size_t i = rank; i < count; i += size) {
        W sum = load(at(source + i, offset_of(pe_of(team, 0))));
#pragma unroll 1
        for (int member = 1; member < size_of(team); member++)
            sum = folded<T, OP, W>::of(sum, load(at(source + i, offset_of(pe_of(team, member)))));
        to.put(dest + i, sum);
    }
}

template <class T> struct element_word {
    typedef typename word_of<sizeof(T)>::type type;
};
template <> struct element_word<double2> {
    typedef uint4 type;
};

template <class T, class OP, class To>
static __device__ __forceinline__ void reduce_near(const nvshmemi_team *team, T *dest,
                                                   const T *source, size_t count, unsigned rank,
                                                   unsigned size, To to)
{
    typedef typename element_word<T>::type word;
    size_t packets = 0, per = 16 / sizeof(T);
    if ((((uintptr_t)dest | (uintptr_t)source) & 15) == 0) {
        packets = count / per;
        reduce_words<T, OP>(team, (uint4 *)dest, (const uint4 *)source, packets, rank, size, to);
    }
    reduce_words<T, OP>(team, (word *)(dest + packets * per),
                        (const word *)(source + packets * per), count - packets * per, rank, size,
                        to);
}

/* With remote members: their sources come through the scratch area, piece by piece. */
template <class T, class OP>
static __device__ __noinline__ void fetch_and_fold(const nvshmemi_team *team, T *dest,
                                                   const T *source, size_t count, group threads)
{
    T *scratch = (T *)state().scratch;
    size_t room = state().scratch_bytes / sizeof(T);
    for (size_t done = 0; done < count; done += room) {
        size_t piece = count - done < room ? count - done : room;
        if (dest != source)
#pragma unroll 1
            for (size_t i = threads.rank(); i < piece; i += threads.size())
                dest[done + i] = source[done + i];
        for (int k = 1; k < size_of(team); k++) {
            int member = rank_of(team) + k < size_of(team) ? rank_of(team) + k : rank_of(team) + k - size_of(team);
            threads.sync();
            pull(pe_of(team, member), scratch, source + done, piece * sizeof(T), threads);
#pragma unroll 1
            for (size_t i = threads.rank(); i < piece; i += threads.size())
                dest[done + i] = combine<T, OP>::of(dest[done + i], scratch[i]);
        }
        threads.sync();
    }
}

template <class T, class OP>
static __device__ __noinline__ void reduce_shares(nvshmemi_team *team, T *dest, const T *source,
                                                  size_t count, group threads)
{
    size_t per = 16 / sizeof(T);
    size_t share = ((count + size_of(team) - 1) / size_of(team) + per - 1) / per * per;
    size_t start = share * rank_of(team) < count ? share * rank_of(team) : count;
    size_t mine = count - start < share ? count - start : share;
    meet(team, threads);
    if (!remote_of(team)) {
        to_all to = {team};
        reduce_near<T, OP>(team, dest + start, source + start, mine, threads.rank(), threads.size(),
                           to);
    } else {
        fetch_and_fold<T, OP>(team, dest + start, source + start, mine, threads);
        for (int i = 0; i < size_of(team); i++)
            if (i != rank_of(team))
                push(pe_of(team, i), dest + start, dest + start, mine * sizeof(T), threads);
    }
    finish(team, threads);
}

template <class T, class OP>
static __device__ __noinline__ void reduce_block(nvshmemi_team *team, T *dest, const T *source,
                                                 size_t count, group threads)
{
    source += count * rank_of(team);
    meet(team, threads);
    if (!remote_of(team))
        reduce_near<T, OP>(team, dest, source, count, threads.rank(), threads.size(), to_me());
    else
        fetch_and_fold<T, OP>(team, dest, source, count, threads);
    finish(team, threads);
}

template <class T, class OP, class S>
static __device__ __forceinline__ int reduce(nvshmem_team_t handle, T *dest, const T *source,
                                             size_t count, OP, S threads)
{
    nvshmemi_team *team = team_of(handle);
    if (!team)
        return -1;
    reduce_shares<T, OP>(team, dest, source, count, threads);
    return 0;
}

template <class T, class OP, class S>
static __device__ __forceinline__ int reducescatter(nvshmem_team_t handle, T *dest, const T *source,
                                                    size_t count, OP, S threads)
{
    nvshmemi_team *team = team_of(handle);
    if (!team)
        return -1;
    reduce_block<T, OP>(team, dest, source, count, threads);
    return 0;
}

template <class S>
static __device__ __forceinline__ int double2_maxloc_reduce(nvshmem_team_t handle, double2 *dest,
                                                            const double2 *source, size_t count,
                                                            S threads)
{
    return reduce(handle, dest, source, count, OP_MAXLOC, threads);
}

} // namespace nvshmemi
#endif
