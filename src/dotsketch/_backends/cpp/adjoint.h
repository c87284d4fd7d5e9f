// total += R^T Z in single precision, for R with few columns.
//
// A BLAS lays out all of Z anew for such a product, which takes as long as multiplying it by ten columns. Here some
// rows of a narrow strip of Z are copied, once, to where the first-level cache holds them, and multiplied by all
// columns of R, with sums in registers. Products are added by fused operations where the machine has them: this is the
// one kernel whose bits depend on the instruction set, as those of a BLAS do.
#pragma once

#include "scratch.h"
#include "wide.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

// A tile: so many columns of R by two vectors of columns of Z. Its sums fill half of the registers.
#if defined(__AVX512F__)
constexpr Index TILE = 8;
#else
constexpr Index TILE = 4;
#endif
constexpr Index TILE_WIDTH = 2 * WIDE_LANES<float>;
constexpr Index STRIP = 4 * TILE_WIDTH;  // columns of Z that are copied at a time: their rows are far apart
constexpr Index STRIP_ROWS = 128;

#if defined(__AVX512F__)
DOTSKETCH_INLINE WideVector<float> multiply_add(WideVector<float> a, WideVector<float> b, WideVector<float> c) {
    return _mm512_fmadd_ps(a, b, c);
}
#elif defined(__FMA__)
DOTSKETCH_INLINE WideVector<float> multiply_add(WideVector<float> a, WideVector<float> b, WideVector<float> c) {
    return _mm256_fmadd_ps(a, b, c);
}
#else
DOTSKETCH_INLINE WideVector<float> multiply_add(WideVector<float> a, WideVector<float> b, WideVector<float> c) {
    return a * b + c;
}
#endif

// total (TILE, TILE_WIDTH) += r^T z for r (rows, TILE) and z (rows, TILE_WIDTH); only its first `height` rows and
// `width` columns exist.
DOTSKETCH_INLINE void add_tile(const float* r, const float* z, Index rows, float* total, Index stride, Index height,
                               Index width) {
    using V = WideVector<float>;
    constexpr Index L = WIDE_LANES<float>;
    // Rows of the total are far apart, and in none of the near caches: they are on their way while sums are computed
    DOTSKETCH_UNROLL for (Index i = 0; i < TILE; ++i) {
        __builtin_prefetch(total + (i < height ? i : 0) * stride, 1, 3);
        __builtin_prefetch(total + (i < height ? i : 0) * stride + L, 1, 3);
    }
    V sums[TILE][2] = {};
    for (Index k = 0; k < rows; ++k, r += TILE, z += TILE_WIDTH) {
        const V first = load_wide(z), second = load_wide(z + L);
        DOTSKETCH_UNROLL for (Index i = 0; i < TILE; ++i) {
            const V by = V{} + r[i];
            sums[i][0] = multiply_add(by, first, sums[i][0]);
            sums[i][1] = multiply_add(by, second, sums[i][1]);
        }
    }
    if (height == TILE && width == TILE_WIDTH) {
        DOTSKETCH_UNROLL for (Index i = 0; i < TILE; ++i) {
            float* const to = total + i * stride;
            store_wide(to, load_wide(to) + sums[i][0]);
            store_wide(to + L, load_wide(to + L) + sums[i][1]);
        }
        return;
    }
    float lanes[TILE * TILE_WIDTH];  // an index that is not known here would keep the sums out of registers
    DOTSKETCH_UNROLL for (Index i = 0; i < TILE; ++i) {
        store_wide(lanes + i * TILE_WIDTH, sums[i][0]);
        store_wide(lanes + i * TILE_WIDTH + L, sums[i][1]);
    }
    for (Index i = 0; i < height; ++i)
        for (Index j = 0; j < width; ++j) total[i * stride + j] += lanes[i * TILE_WIDTH + j];
}

// Columns first, ..., first + STRIP of some rows of Z, a tile's after the other's; zeros take the place of missing ones.
DOTSKETCH_INLINE void copy_strip(const Input<float>& Z, Index first_row, Index rows, Index first, float* to) {
    constexpr Index LINE = CACHE_LINE_BYTES / Index(sizeof(float));
    const Index count = Z.columns - first < STRIP ? Z.columns - first : STRIP;
    const float* from = Z.data + first_row * Z.row_stride + first;
    for (Index k = 0; k < rows; ++k, from += Z.row_stride, to += TILE_WIDTH) {
        if (count == STRIP) {
            for (Index i = 0; i < STRIP; i += LINE) __builtin_prefetch(from + STRIP + i, 0, 2);  // what comes next
            DOTSKETCH_UNROLL for (Index i = 0; i < STRIP; i += TILE_WIDTH)
                std::memcpy(to + i * rows, from + i, TILE_WIDTH * sizeof(float));
            continue;
        }
        for (Index i = 0; i < STRIP; i += TILE_WIDTH)
            for (Index j = 0; j < TILE_WIDTH; ++j) to[i * rows + j] = i + j < count ? from[i + j] : 0.0f;
    }
}

inline void add_adjoint(const AdjointArguments& arguments) {
    const Input<float>&Z = arguments.Z, &R = arguments.R;
    const Index tiles = (R.columns + TILE - 1) / TILE;
    const Index most = Z.rows < STRIP_ROWS ? Z.rows : STRIP_ROWS;
    Scratch scratch(most * (STRIP + tiles * TILE) * Index(sizeof(float)), 2);
    float* const strip = scratch.take<float>(most * STRIP);
    float* const left = scratch.take<float>(most * tiles * TILE);
    for (Index first_row = 0; first_row < Z.rows; first_row += STRIP_ROWS) {
        const Index rows = Z.rows - first_row < STRIP_ROWS ? Z.rows - first_row : STRIP_ROWS;
        for (Index k = 0; k < rows; ++k)
            for (Index j = 0; j < tiles * TILE; ++j)
                left[(j / TILE * rows + k) * TILE + j % TILE] =
                    j < R.columns ? R.data[(first_row + k) * R.row_stride + j] : 0.0f;
        for (Index first = 0; first < Z.columns; first += STRIP) {
            copy_strip(Z, first_row, rows, first, strip);
            for (Index i = 0; i < STRIP && first + i < Z.columns; i += TILE_WIDTH)
                for (Index j = 0; j < R.columns; j += TILE) {
                    const Index height = R.columns - j, width = Z.columns - first - i;
                    add_tile(left + j * rows, strip + i * rows, rows,
                             arguments.total + j * arguments.total_stride + first + i, arguments.total_stride,
                             height < TILE ? height : TILE, width < TILE_WIDTH ? width : TILE_WIDTH);
                }
        }
    }
}

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
