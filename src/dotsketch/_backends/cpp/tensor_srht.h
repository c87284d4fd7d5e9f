// TensorSRHT: feature l of block b is the product over degrees j of (H (z_jb * x))[places_jb[l]].
//
// Everything is fused over a tile: the weights enter in the first pass of the transform, and its last pass
// multiplies straight into the running product at the permuted place. Weights i^turns make z * x a pair of real
// vectors with disjoint supports, so a complex transform is two real ones ("planes").
#pragma once

#include "hadamard.h"
#include "scratch.h"
#include "tile.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

// A tile's transform works on blocks of 64 vectors that are separated by a cache line: without the gap the
// columns of the first pass, a power of two apart, would share few cache sets.
struct TileLayout {
    static constexpr Index GAP = CACHE_LINE_BYTES / VECTOR_BYTES;
    static DOTSKETCH_INLINE Index place(Index k) { return k + (k >> 6) * GAP; }
    static Index size(Index dimension) { return place(dimension - 1) + 1; }
};

template <class T, int PLANES>
struct Planes {
    Vector<T>* plane[PLANES];
};

DOTSKETCH_INLINE bool any(const std::uint8_t* flags, Index count) {
    for (Index i = 0; i < count; ++i)
        if (flags[i]) return true;
    return false;
}

// Sends (H get(0, .), ..., H get(PLANES - 1, .)) to `put`, through the scratch planes.
// get(plane, k, place) is the k-th input vector; put(k, values) takes the k-th output of all planes.
// `needed` has one flag for eight outputs and tells which of them `put` wants; null means all.
template <class T, int PLANES, class Get, class Put>
DOTSKETCH_INLINE void transform_tile(int levels, Planes<T, PLANES> scratch, const std::uint8_t* needed, Get get,
                                     Put put) {
    using V = Vector<T>;
    const auto put_group = [=](Index base, V(&v)[PLANES][8], int count) DOTSKETCH_INLINE_LAMBDA {
        DOTSKETCH_UNROLL for (int i = 0; i < count; ++i) {
            V values[PLANES];
            for (int plane = 0; plane < PLANES; ++plane) values[plane] = v[plane][i];
            put(base + i, values);
        }
    };
    if (levels <= 3) {
        const int count = 1 << levels;
        V v[PLANES][8];
        for (int plane = 0; plane < PLANES; ++plane) {
            for (int i = 0; i < count; ++i) v[plane][i] = get(plane, i, i);
            for (int half = count / 2; half > 0; half /= 2)
                for (int i = 0; i < count; ++i) {
                    if (i & half) continue;
                    const V a = v[plane][i], b = v[plane][i + half];
                    v[plane][i] = a + b;
                    v[plane][i + half] = a - b;
                }
        }
        put_group(0, v, count);
        return;
    }

    const int first = next_levels(levels);
    const Index stride = Index(1) << (levels - first);
    for (int plane = 0; plane < PLANES; ++plane) {
        V* const to = scratch.plane[plane];
        butterfly_pass<V, TileLayout>(
            first, 0, stride, [=](Index k, Index place) DOTSKETCH_INLINE_LAMBDA { return get(plane, k, place); },
            [=](Index, Index place, V v) DOTSKETCH_INLINE_LAMBDA { to[place] = v; });
    }
    const auto inner = [=](int inner_levels, Index base, Index inner_stride) DOTSKETCH_INLINE_LAMBDA {
        if (needed && !any(needed + (base >> 3), inner_stride << inner_levels >> 3)) return;
        for (int plane = 0; plane < PLANES; ++plane) {
            V* const tile = scratch.plane[plane];
            butterfly_pass<V, TileLayout>(
                inner_levels, base, inner_stride,
                [=](Index, Index place) DOTSKETCH_INLINE_LAMBDA { return tile[place]; },
                [=](Index, Index place, V v) DOTSKETCH_INLINE_LAMBDA { tile[place] = v; });
        }
    };
    const auto last = [=](Index base) DOTSKETCH_INLINE_LAMBDA {
        if (needed && !needed[base >> 3]) return;
        V v[PLANES][8];
        DOTSKETCH_UNROLL for (int plane = 0; plane < PLANES; ++plane) {
            const V* const from = scratch.plane[plane] + TileLayout::place(base);
            DOTSKETCH_UNROLL for (int i = 0; i < 8; ++i) v[plane][i] = from[i];
            butterflies<3>(v[plane]);
        }
        put_group(base, v, 8);
    };
    depth_first(levels - first, Index(1) << first, 0, inner, last);
}

// What all tiles share. The index (j, b, k) counts degrees, blocks and coordinates.
template <class T, int PLANES>
struct SrhtPlan {
    T* weights;                  // (j, b, k, plane): the real and imaginary parts of i^turns
    std::int32_t* destinations;  // (j, b, k): the inverse of places
    std::uint8_t* needed;        // (j, k / 8): whether the last block, if only a small part of it is wanted, needs
                                 // some of eight consecutive coordinates; null otherwise

    SrhtPlan(Scratch& scratch, const TensorSrhtArguments<T>& arguments) {
        const Index d = arguments.dimension, transforms = arguments.degree * arguments.blocks;
        weights = scratch.take<T>(PLANES * transforms * d);
        destinations = scratch.take<std::int32_t>(transforms * d);
        needed = scratch.take<std::uint8_t>(arguments.degree * d);
        constexpr T REAL[4] = {1, 0, -1, 0}, IMAGINARY[4] = {0, 1, 0, -1};
        for (Index i = 0; i < transforms * d; ++i) {
            weights[PLANES * i] = REAL[arguments.turns[i]];
            if constexpr (PLANES == 2) weights[PLANES * i + 1] = IMAGINARY[arguments.turns[i]];
        }
        for (Index t = 0; t < transforms; ++t)
            for (Index l = 0; l < d; ++l) destinations[t * d + arguments.places[t * d + l]] = std::int32_t(l);

        const Index columns = arguments.out.columns % d, block = arguments.out.columns / d;
        if (columns == 0 || 8 * columns > d) {
            needed = nullptr;
            return;
        }
        std::memset(needed, 0, std::size_t(arguments.degree * d));
        for (Index j = 0; j < arguments.degree; ++j)
            for (Index l = 0; l < columns; ++l)
                needed[(j * d + arguments.places[(j * arguments.blocks + block) * d + l]) >> 3] = 1;
    }

    static Index bytes(const TensorSrhtArguments<T>& arguments) {
        const Index elements = arguments.degree * arguments.blocks * arguments.dimension;
        return elements * Index(PLANES * sizeof(T) + sizeof(std::int32_t)) + arguments.degree * arguments.dimension;
    }
};

template <class T, int PLANES>
void tensor_srht_planes(const TensorSrhtArguments<T>& arguments) {
    using V = Vector<T>;
    using Values = V[PLANES];
    const Input<T>& X = arguments.X;
    const Output<T>& out = arguments.out;
    const Index dimension = arguments.dimension;
    const int levels = log2_of(dimension);
    const Index padded_size = TileLayout::size(dimension);

    const Index vectors = (1 + PLANES) * padded_size + PLANES * dimension;
    Scratch memory(SrhtPlan<T, PLANES>::bytes(arguments) + vectors * VECTOR_BYTES, 7);
    V* const x = memory.take<V>(padded_size);
    Planes<T, PLANES> scratch;
    for (int plane = 0; plane < PLANES; ++plane) scratch.plane[plane] = memory.take<V>(padded_size);
    V* const product = memory.take<V>(PLANES * dimension);  // plane next to plane: one cache line
    const SrhtPlan<T, PLANES> plan(memory, arguments);
    for (Index k = 0; k < padded_size; ++k) x[k] = V{};
    for (Index l = 0; l < PLANES * dimension; ++l) product[l] = V{};

    for (Index row = 0; row < X.rows; row += LANES<T>) {
        const Index rows = X.rows - row < LANES<T> ? X.rows - row : LANES<T>;
        load_tile(X, row, rows, x, [](Index k) DOTSKETCH_INLINE_LAMBDA { return TileLayout::place(k); });
        const V factor = tile_factor(arguments.scaling, row, rows);
        for (Index block = 0; block * dimension < out.columns; ++block) {
            const Index left = out.columns - block * dimension;
            const Index columns = left < dimension ? left : dimension;
            prefetch_tile<PLANES>(out, row, rows, block * dimension, columns);
            for (Index j = 0; j < arguments.degree; ++j) {
                const Index offset = (j * arguments.blocks + block) * dimension;
                const T* const weights = plan.weights + PLANES * offset;
                const std::int32_t* const destinations = plan.destinations + offset;
                const bool is_partial = columns < dimension && plan.needed;
                const std::uint8_t* const needed = is_partial ? plan.needed + j * dimension / 8 : nullptr;
                const auto weighted = [=](int plane, Index k, Index place) DOTSKETCH_INLINE_LAMBDA {
                    return x[place] * weights[PLANES * k + plane];
                };
                const auto set = [=](Index k, Values& v) DOTSKETCH_INLINE_LAMBDA {
                    V* const to = product + PLANES * destinations[k];
                    for (int plane = 0; plane < PLANES; ++plane) to[plane] = v[plane];
                };
                const auto multiply = [=](Index k, Values& v) DOTSKETCH_INLINE_LAMBDA {
                    V* const to = product + PLANES * destinations[k];
                    if constexpr (PLANES == 1) {
                        to[0] *= v[0];
                    } else {
                        const V re = to[0], im = to[1];
                        to[0] = re * v[0] - im * v[1];
                        to[1] = re * v[1] + im * v[0];
                    }
                };
                if (j == 0)
                    transform_tile<T, PLANES>(levels, scratch, needed, weighted, set);
                else
                    transform_tile<T, PLANES>(levels, scratch, needed, weighted, multiply);
            }
            store_tile<PLANES>(product, out, row, rows, block * dimension, columns, factor);
        }
    }
}

template <class T>
void tensor_srht(const TensorSrhtArguments<T>& arguments) {
    if (arguments.out.im)
        tensor_srht_planes<T, 2>(arguments);
    else
        tensor_srht_planes<T, 1>(arguments);
}

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
