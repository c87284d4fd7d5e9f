// Transforms without permutation, row by row: fwht and sorf.
//
// Nothing here moves coordinates around, so a row can stay as it is (4 KB at d = 1024, against 32 KB of a tile):
// large strides are butterflies between vectors, the smallest ones between the lanes of a vector.
#pragma once

#include "hadamard.h"
#include "scratch.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

template <int DISTANCE, class T>
DOTSKETCH_INLINE Vector<T> lane_level(Vector<T> v) {
    Vector<T> sign{};
    for (int lane = 0; lane < int(LANES<T>); ++lane) sign[lane] = lane & DISTANCE ? T(-1) : T(1);
    return add_exact_product(v, sign, exchange_lanes<DISTANCE>(v));
}

// The levels with strides below the number of lanes. (b - a is computed as b + (-1) a: the same bits.)
template <class T>
DOTSKETCH_INLINE Vector<T> lane_levels(Vector<T> v) {
    if constexpr (LANES<T> >= 8) v = lane_level<4, T>(v);
    if constexpr (LANES<T> >= 4) v = lane_level<2, T>(v);
    return lane_level<1, T>(v);
}

// Rows shorter than a vector, in the same order of levels.
template <class T>
inline void transform_short_row(T* row, Index dimension) {
    for (Index half = dimension / 2; half > 0; half /= 2)
        for (Index i = 0; i < dimension; ++i) {
            if (i & half) continue;
            const T a = row[i], b = row[i + half];
            row[i] = a + b;
            row[i + half] = a - b;
        }
}

struct RowLayout {
    static DOTSKETCH_INLINE Index place(Index k) { return k; }
};

// row = H (get(0), get(1), ...), where get(i) is the i-th vector of the input; needs at least one full vector.
// `get` may read `row` itself.
template <class T, class Get>
DOTSKETCH_INLINE void transform_row(T* row, Index dimension, Get get) {
    using V = Vector<T>;
    constexpr Index L = LANES<T>;
    const auto get_first = [=](Index i, Index) DOTSKETCH_INLINE_LAMBDA { return get(i); };
    const auto get_row = [=](Index i, Index) DOTSKETCH_INLINE_LAMBDA { return load(row + i * L); };
    const auto put_row = [=](Index i, Index, V v) DOTSKETCH_INLINE_LAMBDA { store(row + i * L, v); };
    const auto put_last = [=](Index i, Index, V v) DOTSKETCH_INLINE_LAMBDA {
        store(row + i * L, lane_levels<T>(v));
    };
    const int levels = log2_of(dimension / L);
    switch (levels) {
        case 0: return butterfly_pass<0, 1, V, RowLayout>(0, 1, get_first, put_last);
        case 1: return butterfly_pass<1, 1, V, RowLayout>(0, 1, get_first, put_last);
        case 2: return butterfly_pass<2, 1, V, RowLayout>(0, 1, get_first, put_last);
        case 3: return butterfly_pass<3, 1, V, RowLayout>(0, 1, get_first, put_last);
    }
    const int first = next_levels(levels);
    const Index stride = Index(1) << (levels - first);
    butterfly_pass<V, RowLayout>(first, 0, stride, get_first, put_row);
    depth_first(
        levels - first, Index(1) << first, 0,
        [=](int inner_levels, Index base, Index inner_stride) DOTSKETCH_INLINE_LAMBDA {
            butterfly_pass<V, RowLayout>(inner_levels, base, inner_stride, get_row, put_row);
        },
        [=](Index base) DOTSKETCH_INLINE_LAMBDA {
            butterfly_pass<3, 1, V, RowLayout>(base, 1, get_row, put_last);
        });
}

template <class T>
DOTSKETCH_INLINE void copy_row(const T* from, Index count, T* to, Index to_stride) {
    for (Index k = 0; k < count; ++k) to[k * to_stride] = from[k];
}

// out may be X itself.
template <class T>
void fwht(const Input<T>& X, const Output<T>& out) {
    const Index dimension = X.columns;
    const bool in_place = out.re_column_stride == 1;
    Scratch scratch(in_place ? 0 : dimension * Index(sizeof(T)), 1);
    T* spare = scratch.take<T>(in_place ? 0 : dimension);
    for (Index r = 0; r < X.rows; ++r) {
        const T* from = X.data + r * X.row_stride;
        T* to = out.re + r * out.re_row_stride;
        T* row = in_place ? to : spare;
        if (dimension < LANES<T>) {
            for (Index k = 0; k < dimension; ++k) row[k] = from[k];
            transform_short_row(row, dimension);
        } else {
            transform_row<T>(row, dimension,
                             [=](Index i) DOTSKETCH_INLINE_LAMBDA { return load(from + i * LANES<T>); });
        }
        if (!in_place) copy_row(row, dimension, to, out.re_column_stride);
    }
}

// Block b of the output is H D3 H D2 H D1 x for the sign diagonals D of the block, x padded by zeros.
template <class T>
void sorf(const SorfArguments<T>& arguments) {
    constexpr Index ROUNDS = 3;
    constexpr Index L = LANES<T>;
    const Input<T>& X = arguments.X;
    const Output<T>& out = arguments.out;
    const Index dimension = arguments.dimension;
    const Index n_signs = arguments.blocks * ROUNDS * dimension;

    Scratch scratch((n_signs + 2 * dimension) * Index(sizeof(T)), 3);
    T* signs = scratch.take<T>(n_signs);
    T* padded = scratch.take<T>(dimension);
    T* spare = scratch.take<T>(dimension);
    for (Index i = 0; i < n_signs; ++i) signs[i] = T(arguments.signs[i]);
    for (Index k = 0; k < dimension; ++k) padded[k] = 0;

    for (Index r = 0; r < X.rows; ++r) {
        const T* x = X.data + r * X.row_stride;
        if (X.columns < dimension) {
            copy_row(x, X.columns, padded, 1);
            x = padded;
        }
        for (Index block = 0; block * dimension < out.columns; ++block) {
            const Index first_column = block * dimension;
            const Index columns = out.columns - first_column < dimension ? out.columns - first_column : dimension;
            T* to = out.re + r * out.re_row_stride + first_column * out.re_column_stride;
            const bool in_place = out.re_column_stride == 1 && columns == dimension;
            T* row = in_place ? to : spare;
            for (Index round = 0; round < ROUNDS; ++round) {
                const T* sign = signs + (block * ROUNDS + round) * dimension;
                const T* from = round == 0 ? x : row;
                if (dimension < L) {
                    for (Index k = 0; k < dimension; ++k) row[k] = from[k] * sign[k];
                    transform_short_row(row, dimension);
                } else {
                    transform_row<T>(row, dimension, [=](Index i) DOTSKETCH_INLINE_LAMBDA {
                        return load(from + i * L) * load(sign + i * L);
                    });
                }
            }
            if (!in_place) copy_row(row, columns, to, out.re_column_stride);
        }
    }
}

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
