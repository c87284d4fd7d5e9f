// The Walsh-Hadamard transform in natural (Sylvester) order, as passes of butterflies over vectors.
//
// Every route does the levels in the same order, from the largest stride to 1, and the additions of a level do
// not depend on how levels are grouped into passes: the bits of a result depend neither on the grouping nor on
// the vector width. Passes take 2 to 4 levels in registers, for the transform is bound by loads and stores, and
// go depth first, so that the later passes find their block in the first-level cache.
#pragma once

#include "lanes.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

DOTSKETCH_INLINE int log2_of(Index power_of_two) {
    return __builtin_ctzll((unsigned long long)power_of_two);
}

// 2^LEVELS vectors through LEVELS levels, in registers.
template <int LEVELS, class V>
DOTSKETCH_INLINE void butterflies(V (&v)[1 << LEVELS]) {
    constexpr int RADIX = 1 << LEVELS;
    DOTSKETCH_UNROLL for (int half = RADIX / 2; half > 0; half /= 2) {
        DOTSKETCH_UNROLL for (int i = 0; i < RADIX; ++i) {
            if (i & half) continue;
            const V a = v[i], b = v[i + half];
            v[i] = a + b;
            v[i + half] = a - b;
        }
    }
}

// One pass of LEVELS levels over a block of 2^LEVELS * stride elements at `base`, from `get` to `put`.
//
// Both take the index k of an element and its place in memory, Layout::place(k). The index bits of base, column and
// i * stride are disjoint and place() is additive over disjoint bits, so that a STRIDE known to the compiler (0 means
// unknown) leaves one address per column and constant offsets from it.
template <int LEVELS, Index STRIDE, class V, class Layout, class Get, class Put>
DOTSKETCH_INLINE void butterfly_pass(Index base, Index runtime_stride, Get get, Put put) {
    constexpr int RADIX = 1 << LEVELS;
    const Index stride = STRIDE ? STRIDE : runtime_stride;
    for (Index k = base; k < base + stride; ++k) {
        const Index place = Layout::place(k);
        V v[RADIX];
        DOTSKETCH_UNROLL for (int i = 0; i < RADIX; ++i) v[i] = get(k + i * stride, place + Layout::place(i * stride));
        butterflies<LEVELS>(v);
        DOTSKETCH_UNROLL for (int i = 0; i < RADIX; ++i) put(k + i * stride, place + Layout::place(i * stride), v[i]);
    }
}

// The passes that next_levels() below can ask for.
template <class V, class Layout, class Get, class Put>
DOTSKETCH_INLINE void butterfly_pass(int levels, Index base, Index stride, Get get, Put put) {
    if (stride == 8) {
        switch (levels) {
            case 1: return butterfly_pass<1, 8, V, Layout>(base, stride, get, put);
            case 2: return butterfly_pass<2, 8, V, Layout>(base, stride, get, put);
            case 3: return butterfly_pass<3, 8, V, Layout>(base, stride, get, put);
            case 4: return butterfly_pass<4, 8, V, Layout>(base, stride, get, put);
        }
    } else if (stride == 64) {
        switch (levels) {
            case 2: return butterfly_pass<2, 64, V, Layout>(base, stride, get, put);
            case 3: return butterfly_pass<3, 64, V, Layout>(base, stride, get, put);
            case 4: return butterfly_pass<4, 64, V, Layout>(base, stride, get, put);
        }
    }
    butterfly_pass<3, 0, V, Layout>(base, stride, get, put);
}

// How many levels the next pass takes when `remaining` (at least 4) are left and the last pass takes 3: as few passes
// as possible, but radix 8 rather than 16 at large strides, where 16 elements would compete for one cache set.
DOTSKETCH_INLINE int next_levels(int remaining) {
    if (remaining <= 7) return remaining - 3;
    if (remaining <= 10) return remaining - 6;
    return 3;
}

// The last `remaining` (at least 3) levels of `blocks` consecutive blocks of 2^remaining elements at `base`:
// `inner(levels, base, stride)` does a pass in place, `last(base)` the last three levels of eight elements.
template <class Inner, class Last>
void depth_first(int remaining, Index blocks, Index base, Inner inner, Last last) {
    const Index end = base + (blocks << remaining);
    if (remaining == 3) {
        for (; base < end; base += 8) last(base);
        return;
    }
    const int levels = next_levels(remaining);
    for (; base < end; base += Index(1) << remaining) {
        inner(levels, base, Index(1) << (remaining - levels));
        depth_first(remaining - levels, Index(1) << levels, base, inner, last);
    }
}

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
