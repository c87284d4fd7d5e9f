// Tiles: a few rows side by side in the lanes of vectors ("lane = row").
//
// A tile holds one vector per coordinate, whose lane r belongs to row r. Sign flips, butterflies, permuted
// accesses and products are then full-width vector operations for any dimension. Missing rows of the last tile
// are lanes of zeros, so that a row goes through the same operations wherever it stands in the batch.
//
//       X in memory, 4 lanes              the tile                      a butterfly of k and k + h
//
//             k = 0  1  2  3 ...       tile[0] = | a0 b0 c0 d0 |        tile[k]     = tile[k] + tile[k + h]
//     row a:     a0 a1 a2 a3 ...       tile[1] = | a1 b1 c1 d1 |        tile[k + h] = tile[k] - tile[k + h]
//     row b:     b0 b1 b2 b3 ...  ->   tile[2] = | a2 b2 c2 d2 |
//     row c:     c0 c1 c2 c3 ...       tile[3] = | a3 b3 c3 d3 |        two operations for all rows of the tile,
//     row d:     d0 d1 d2 d3 ...         ...     lane 0  1  2  3        without a shuffle at any distance h
#pragma once

#include "lanes.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

// Loads `rows` <= LANES rows of X; coordinate k goes to tile[place(k)].
template <class T, class Place>
DOTSKETCH_INLINE void load_tile(const Input<T>& X, Index first_row, Index rows, Vector<T>* tile, Place place) {
    constexpr Index L = LANES<T>;
    const T* from = X.data + first_row * X.row_stride;
    Index column = 0;
    for (; column + L <= X.columns; column += L) {
        Vector<T> v[L];
        for (Index r = 0; r < L; ++r) v[r] = r < rows ? load(from + r * X.row_stride + column) : Vector<T>{};
        transpose(v);
        for (Index i = 0; i < L; ++i) tile[place(column + i)] = v[i];
    }
    for (; column < X.columns; ++column) {
        T lanes[L] = {};
        for (Index r = 0; r < rows; ++r) lanes[r] = from[r * X.row_stride + column];
        tile[place(column)] = load(lanes);
    }
}

template <class T>
DOTSKETCH_INLINE void load_tile(const Input<T>& X, Index first_row, Index rows, Vector<T>* tile) {
    load_tile(X, first_row, rows, tile, [](Index k) DOTSKETCH_INLINE_LAMBDA { return k; });
}

// The factors of the rows of a tile.
template <class T>
DOTSKETCH_INLINE Vector<T> tile_factor(const Scaling<T>& scaling, Index first_row, Index rows) {
    if (!scaling.row_scale) return broadcast<T>(scaling.scale);
    T lanes[LANES<T>] = {};
    for (Index r = 0; r < rows; ++r)
        lanes[r] = scaling.scale * scaling.row_scale[(first_row + r) * scaling.row_scale_stride];
    return load(lanes);
}

// One plane of a tile (every `step`-th vector) to a matrix with any strides; `to` is the first element.
template <class T>
DOTSKETCH_INLINE void store_plane(const Vector<T>* tile, Index step, Index columns, Index rows, Vector<T> factor, T* to,
                                  Index row_stride, Index column_stride) {
    constexpr Index L = LANES<T>;
    Index column = 0;
    if (column_stride == 1) {
        for (; column + L <= columns; column += L) {
            Vector<T> v[L];
            for (Index i = 0; i < L; ++i) v[i] = tile[(column + i) * step] * factor;
            transpose(v);
            if (rows == L)
                for (Index r = 0; r < L; ++r) store(to + r * row_stride + column, v[r]);
            else
                for (Index r = 0; r < rows; ++r) store(to + r * row_stride + column, v[r]);
        }
    } else if (row_stride == 1 && rows == L) {
        for (; column < columns; ++column) store(to + column * column_stride, tile[column * step] * factor);
    }
    for (; column < columns; ++column) {
        T lanes[L];
        store(lanes, tile[column * step] * factor);
        for (Index r = 0; r < rows; ++r) to[r * row_stride + column * column_stride] = lanes[r];
    }
}

// The halves of one complex matrix: `to` is the real part of the first element.
template <class T>
DOTSKETCH_INLINE void store_complex(const Vector<T>* real, const Vector<T>* imaginary, Index step, Index columns,
                                    Index rows, Vector<T> factor, T* to, Index row_stride) {
    constexpr Index L = LANES<T>;
    Index column = 0;
    for (; column + L / 2 <= columns; column += L / 2) {
        Vector<T> re[L / 2], im[L / 2], row[L];
        for (Index i = 0; i < L / 2; ++i) {
            re[i] = real[(column + i) * step] * factor;
            im[i] = imaginary[(column + i) * step] * factor;
        }
        transpose_complex(re, im, row);
        if (rows == L)
            for (Index r = 0; r < L; ++r) store(to + r * row_stride + 2 * column, row[r]);
        else
            for (Index r = 0; r < rows; ++r) store(to + r * row_stride + 2 * column, row[r]);
    }
    for (; column < columns; ++column) {
        T re[L], im[L];
        store(re, real[column * step] * factor);
        store(im, imaginary[column * step] * factor);
        for (Index r = 0; r < rows; ++r) {
            to[r * row_stride + 2 * column] = re[r];
            to[r * row_stride + 2 * column + 1] = im[r];
        }
    }
}

// Asks for the cache lines that store_tile will write, so that they arrive during the computation; not for more than
// a part of the first-level cache, or they would push out what is computed with.
template <class T>
DOTSKETCH_INLINE void prefetch_plane(T* to, Index rows, Index columns, Index row_stride, Index column_stride) {
    constexpr Index MOST_BYTES = 12 * 1024;
    if (column_stride < 1 || column_stride > 2) return;
    if (rows * columns * column_stride * Index(sizeof(T)) > MOST_BYTES) return;
    for (Index r = 0; r < rows; ++r) {
        const char* line = reinterpret_cast<const char*>(to + r * row_stride);
        const char* const end = reinterpret_cast<const char*>(to + r * row_stride + columns * column_stride);
        for (; line < end; line += CACHE_LINE_BYTES) __builtin_prefetch(line, 1);
    }
}

template <int PLANES, class T>
DOTSKETCH_INLINE void prefetch_tile(const Output<T>& out, Index first_row, Index rows, Index first_column,
                                    Index columns) {
    T* re = out.re + first_row * out.re_row_stride + first_column * out.re_column_stride;
    prefetch_plane(re, rows, columns, out.re_row_stride, out.re_column_stride);
    if constexpr (PLANES == 2) {
        T* im = out.im + first_row * out.im_row_stride + first_column * out.im_column_stride;
        if (im != re + 1) prefetch_plane(im, rows, columns, out.im_row_stride, out.im_column_stride);
    }
}

// tile[column * step + plane * plane_stride] times `factor` to columns first_column, ... of the rows first_row, ... of
// out.
template <int PLANES, class T>
DOTSKETCH_INLINE void store_tile(const Vector<T>* tile, Index step, Index plane_stride, const Output<T>& out,
                                 Index first_row, Index rows, Index first_column, Index columns, Vector<T> factor) {
    T* re = out.re + first_row * out.re_row_stride + first_column * out.re_column_stride;
    if constexpr (PLANES == 2) {
        T* im = out.im + first_row * out.im_row_stride + first_column * out.im_column_stride;
        const bool is_one_complex_matrix = im == re + 1 && out.re_column_stride == 2 && out.im_column_stride == 2 &&
                                           out.re_row_stride == out.im_row_stride;
        const Vector<T>* imaginary = tile + plane_stride;
        if (is_one_complex_matrix) {
            store_complex<T>(tile, imaginary, step, columns, rows, factor, re, out.re_row_stride);
            return;
        }
        store_plane<T>(imaginary, step, columns, rows, factor, im, out.im_row_stride, out.im_column_stride);
    }
    store_plane<T>(tile, step, columns, rows, factor, re, out.re_row_stride, out.re_column_stride);
}

// The same for planes side by side: tile[column * PLANES + plane].
template <int PLANES, class T>
DOTSKETCH_INLINE void store_tile(const Vector<T>* tile, const Output<T>& out, Index first_row, Index rows,
                                 Index first_column, Index columns, Vector<T> factor) {
    store_tile<PLANES>(tile, PLANES, 1, out, first_row, rows, first_column, columns, factor);
}

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
