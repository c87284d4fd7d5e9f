// TensorSRHT: feature l of block b is the product over degrees j of (H (z_jb * x))[places_jb[l]].
//
// Everything is fused over a tile: the weights enter in the first pass of the transform, and its last pass
// multiplies straight into the running product at the permuted place. Weights i^turns make z * x a pair of real
// vectors with disjoint supports, so a complex transform is two real ones ("planes").
#pragma once

#include "hadamard.h"
#include "plan.h"
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

// The transform of a tile, in three steps. A tile of d = 2^levels coordinates has one vector for each (lanes are rows);
// here d = 512 with passes of 3 levels, and every * is a block of 64 vectors:
//
//     x, weighted         scratch              scratch              product
//     * * * * * * * *     * * * * * * * *      | | | | | | | |
//     '-+-+-+-+-+-+-'     each block by        groups of eight   -> scattered by `put`
//      enter: strides     itself, in place:    vectors that stand
//      256, 128, 64:      pass_within:         side by side:
//      from `get` to      strides 32, 16, 8    leave: strides
//      scratch                                 4, 2, 1
//
// `enter` reads the input and applies the weights on the way; `leave` hands its outputs over while they are in
// registers; what lies between them is done depth first, block by block, in the first-level cache. Outputs that nobody
// needs are not computed.
template <class T, int PLANES, class Get, class Put>
class TileTransform {
  public:
    // get(plane, k, place) is the k-th input vector; put(k, values) takes the k-th output of all planes. `needed` has
    // one flag for eight outputs and says which of them `put` wants; null means all.
    DOTSKETCH_INLINE TileTransform(int levels, Planes<T, PLANES> scratch, const std::uint8_t* needed, Get get, Put put)
        : levels_(levels), scratch_(scratch), needed_(needed), get_(get), put_(put) {}

    DOTSKETCH_INLINE void run() const {
        if (levels_ <= LAST_LEVELS) return transform_in_registers();
        const int first = next_levels(levels_);
        enter(first);
        const auto within = [this](int levels, Index base, Index stride)
                                DOTSKETCH_INLINE_LAMBDA { pass_within(levels, base, stride); };
        const auto last = [this](Index base) DOTSKETCH_INLINE_LAMBDA { leave(base); };
        depth_first(levels_ - first, Index(1) << first, 0, within, last);
    }

  private:
    using V = Vector<T>;
    static constexpr int LAST_LEVELS = 3, LAST = 1 << LAST_LEVELS;

    // A tile of at most eight vectors needs no scratch.
    DOTSKETCH_INLINE void transform_in_registers() const {
        const int count = 1 << levels_;
        V v[PLANES][LAST];
        for (int plane = 0; plane < PLANES; ++plane) {
            for (int i = 0; i < count; ++i) v[plane][i] = get_(plane, i, i);
            for (int half = count / 2; half > 0; half /= 2)
                for (int i = 0; i < count; ++i) {
                    if (i & half) continue;
                    const V a = v[plane][i], b = v[plane][i + half];
                    v[plane][i] = a + b;
                    v[plane][i + half] = a - b;
                }
        }
        put_group(0, v, count);
    }

    DOTSKETCH_INLINE void enter(int levels) const {
        const Index stride = Index(1) << (levels_ - levels);
        for (int plane = 0; plane < PLANES; ++plane) {
            V* const to = scratch_.plane[plane];
            const Get get = get_;
            butterfly_pass<V, TileLayout>(
                levels, 0, stride, [=](Index k, Index place) DOTSKETCH_INLINE_LAMBDA { return get(plane, k, place); },
                [=](Index, Index place, V v) DOTSKETCH_INLINE_LAMBDA { to[place] = v; });
        }
    }

    DOTSKETCH_INLINE void pass_within(int levels, Index base, Index stride) const {
        if (needed_ && !any(needed_ + base / LAST, (stride << levels) / LAST)) return;
        for (int plane = 0; plane < PLANES; ++plane) {
            V* const tile = scratch_.plane[plane];
            butterfly_pass<V, TileLayout>(
                levels, base, stride, [=](Index, Index place) DOTSKETCH_INLINE_LAMBDA { return tile[place]; },
                [=](Index, Index place, V v) DOTSKETCH_INLINE_LAMBDA { tile[place] = v; });
        }
    }

    DOTSKETCH_INLINE void leave(Index base) const {
        if (needed_ && !needed_[base / LAST]) return;
        V v[PLANES][LAST];
        DOTSKETCH_UNROLL for (int plane = 0; plane < PLANES; ++plane) {
            const V* const from = scratch_.plane[plane] + TileLayout::place(base);
            DOTSKETCH_UNROLL for (int i = 0; i < LAST; ++i) v[plane][i] = from[i];
            butterflies<LAST_LEVELS>(v[plane]);
        }
        put_group(base, v, LAST);
    }

    DOTSKETCH_INLINE void put_group(Index base, V (&v)[PLANES][LAST], int count) const {
        DOTSKETCH_UNROLL for (int i = 0; i < count; ++i) {
            V values[PLANES];
            for (int plane = 0; plane < PLANES; ++plane) values[plane] = v[plane][i];
            put_(base + i, values);
        }
    }

    const int levels_;
    const Planes<T, PLANES> scratch_;
    const std::uint8_t* const needed_;
    const Get get_;
    const Put put_;
};

template <class T, int PLANES, class Get, class Put>
DOTSKETCH_INLINE void transform_tile(int levels, Planes<T, PLANES> scratch, const std::uint8_t* needed, Get get,
                                     Put put) {
    TileTransform<T, PLANES, Get, Put>(levels, scratch, needed, get, put).run();
}

// What all tiles share. The index (j, b, k) counts degrees, blocks and coordinates.
template <class T, int PLANES>
struct SrhtPlan {
    Index degree, blocks, dimension;
    Scratch memory;
    T* const weights;                  // (j, b, k, plane): the real and imaginary parts of i^turns
    std::int32_t* const destinations;  // (j, b, k): the inverse of places
    std::uint8_t* needed;              // (j, k / 8): whether the last block, if only a small part of it is wanted,
                                       // needs some of eight consecutive coordinates; null otherwise

    explicit SrhtPlan(const SrhtWeights& given)
        : degree(given.degree),
          blocks(given.blocks),
          dimension(given.dimension),
          memory(elements() * Index(PLANES * sizeof(T) + sizeof(std::int32_t)) + degree * dimension, 3),
          weights(memory.take<T>(PLANES * elements())),
          destinations(memory.take<std::int32_t>(elements())),
          needed(memory.take<std::uint8_t>(degree * dimension)) {
        constexpr T REAL[4] = {1, 0, -1, 0}, IMAGINARY[4] = {0, 1, 0, -1};
        const Index d = dimension;
        for (Index i = 0; i < elements(); ++i) {
            weights[PLANES * i] = REAL[given.turns[i]];
            if constexpr (PLANES == 2) weights[PLANES * i + 1] = IMAGINARY[given.turns[i]];
        }
        for (Index t = 0; t < degree * blocks; ++t)
            for (Index l = 0; l < d; ++l) destinations[t * d + given.places[t * d + l]] = std::int32_t(l);

        const Index columns = given.columns % d, block = given.columns / d;
        if (columns == 0 || 8 * columns > d) {
            needed = nullptr;
            return;
        }
        std::memset(needed, 0, std::size_t(degree * d));
        for (Index j = 0; j < degree; ++j)
            for (Index l = 0; l < columns; ++l) needed[(j * d + given.places[(j * blocks + block) * d + l]) >> 3] = 1;
    }

    Index elements() const { return degree * blocks * dimension; }

    void apply(const Input<T>& X, const Output<T>& out, const Scaling<T>& scaling) const {
        using V = Vector<T>;
        const Index padded_size = TileLayout::size(dimension);
        Scratch room(((1 + PLANES) * padded_size + PLANES * dimension) * VECTOR_BYTES, 4);
        V* const x = room.take<V>(padded_size);
        Planes<T, PLANES> scratch;
        for (int plane = 0; plane < PLANES; ++plane) scratch.plane[plane] = room.take<V>(padded_size);
        V* const product = room.take<V>(PLANES * dimension);  // plane next to plane: one cache line
        for (Index k = 0; k < padded_size; ++k) x[k] = V{};
        for (Index l = 0; l < PLANES * dimension; ++l) product[l] = V{};

        for (Index row = 0; row < X.rows; row += LANES<T>) {
            const Index rows = X.rows - row < LANES<T> ? X.rows - row : LANES<T>;
            load_tile(X, row, rows, x, [](Index k) DOTSKETCH_INLINE_LAMBDA { return TileLayout::place(k); });
            const V factor = tile_factor(scaling, row, rows);
            for (Index block = 0; block * dimension < out.columns; ++block) {
                const Index left = out.columns - block * dimension;
                const Index columns = left < dimension ? left : dimension;
                prefetch_tile<PLANES>(out, row, rows, block * dimension, columns);
                for (Index j = 0; j < degree; ++j) multiply_block(x, scratch, j, block, columns < dimension, product);
                store_tile<PLANES>(product, out, row, rows, block * dimension, columns, factor);
            }
        }
    }

  private:
    // product = or *= the projections of degree j.
    DOTSKETCH_INLINE void multiply_block(const Vector<T>* x, Planes<T, PLANES> scratch, Index j, Index block,
                                         bool is_partial, Vector<T>* product) const {
        using V = Vector<T>;
        using Values = V[PLANES];
        const Index offset = (j * blocks + block) * dimension;
        const T* const w = weights + PLANES * offset;
        const std::int32_t* const to_column = destinations + offset;
        const std::uint8_t* const wanted = is_partial && needed ? needed + j * dimension / 8 : nullptr;
        const int levels = log2_of(dimension);
        const auto weighted = [=](int plane, Index k, Index place) DOTSKETCH_INLINE_LAMBDA {
            return x[place] * w[PLANES * k + plane];
        };
        const auto set = [=](Index k, Values& v) DOTSKETCH_INLINE_LAMBDA {
            V* const to = product + PLANES * to_column[k];
            for (int plane = 0; plane < PLANES; ++plane) to[plane] = v[plane];
        };
        const auto multiply = [=](Index k, Values& v) DOTSKETCH_INLINE_LAMBDA {
            V* const to = product + PLANES * to_column[k];
            if constexpr (PLANES == 1) {
                to[0] *= v[0];
            } else {
                const V re = to[0], im = to[1];
                to[0] = re * v[0] - im * v[1];
                to[1] = re * v[1] + im * v[0];
            }
        };
        if (j == 0)
            transform_tile<T, PLANES>(levels, scratch, wanted, weighted, set);
        else
            transform_tile<T, PLANES>(levels, scratch, wanted, weighted, multiply);
    }
};

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
