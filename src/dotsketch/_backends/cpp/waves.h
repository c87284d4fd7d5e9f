// Cosines and sines of angles that are given in quarter turns, and of products of rows with frequencies.
//
// With angles t in units of pi / 2 the reduction to [-1/2, 1/2] is exact in floating point: f = t - n with n the
// nearest integer. Then cos and sin of f pi / 2 are polynomials in f^2, and n modulo 4 says which of them is which, and
// their signs. There is no range beyond which digits are lost, no library function, and no fused multiply-add: the
// bits are the same for every instruction set, and the result is within two units in the last place of scale * cos of
// the given t. Lanes are angles, and none looks at another.
#pragma once

#include <utility>

#include "wide.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

// Minimax polynomials in z = f^2 for |f| <= 1/2: sin(f pi/2) = f (pi/2 + z S(z)) with a relative error of 2^-28 (float)
// and 2^-58 (double), cos(f pi/2) = 1 + z C(z) with an error of 2^-34 and 2^-64.
template <class T>
struct WavePolynomials;
template <>
struct WavePolynomials<float> {
    static constexpr int SINES = 3, COSINES = 4;
    static constexpr double SINE[SINES] = {-0.64596363020096873604, 0.079681412786201553151, -0.0046048340350372852959};
    static constexpr double COSINE[COSINES] = {-1.2337005433532689755, 0.25366924402307158774, -0.020860288453689563373,
                                               0.00090402154698749651296};
    static constexpr float ROUNDER = 12582912.0f;  // 3 * 2^22: adding it rounds to integers
    static constexpr float LIMIT = 4194304.0f;     // 2^22: up to where it does
    static constexpr int BITS = 32;
};
template <>
struct WavePolynomials<double> {
    static constexpr int SINES = 6, COSINES = 7;
    static constexpr double SINE[SINES] = {-0.64596409750624486086,  0.07969262624605979801,   -0.0046817541325625928391,
                                           0.00016044115216836939992, -3.5986477751211710769e-6, 5.6344630239025899638e-8};
    static constexpr double COSINE[COSINES] = {
        -1.2337005501361698167,     0.25366950790104692735,   -0.020863480763315442409, 0.0009192602742250344502,
        -0.000025202036991552869216, 4.7106156583706914458e-7, -6.3218925366265379016e-9};
    static constexpr double ROUNDER = 6755399441055744.0;  // 3 * 2^51
    static constexpr double LIMIT = 2251799813685248.0;    // 2^51
    static constexpr int BITS = 64;
};

// The coefficients times a scale, so that scaling costs nothing and is not rounded once more.
template <class T>
struct WaveScale {
    using P = WavePolynomials<T>;
    T first, first_rest;  // scale * pi/2, in two parts
    T sine[P::SINES];
    T scale;
    T cosine[P::COSINES];

    explicit WaveScale(T scale_) : scale(scale_) {
        constexpr double HIGH = 1.5707963267948966192, LOW = 6.123233995736766036e-17;  // pi/2
        if constexpr (sizeof(T) == 4) {
            const double product = double(scale) * HIGH;
            first = T(product);
            first_rest = T(product - double(first));
        } else {
            first = scale * HIGH;
            first_rest = __builtin_fma(scale, HIGH, -first) + scale * LOW;  // exact wherever it is computed
        }
        for (int i = 0; i < P::SINES; ++i) sine[i] = T(double(scale) * P::SINE[i]);
        for (int i = 0; i < P::COSINES; ++i) cosine[i] = T(double(scale) * P::COSINE[i]);
    }
};

// scale * (cos, sin) of t quarter turns, |t| < LIMIT. NaN gives NaN.
template <class T>
DOTSKETCH_INLINE void waves_of(WideVector<T> t, const WaveScale<T>& by, WideVector<T>& cosine, WideVector<T>& sine) {
    using P = WavePolynomials<T>;
    using V = WideVector<T>;
    using I = typename WideOf<T>::integers;
    constexpr typename WideOf<T>::integer SIGN = typename WideOf<T>::integer(1) << (P::BITS - 2) << 1;
    const V shifted = t + P::ROUNDER;
    const V f = t - (shifted - P::ROUNDER);
    const V z = f * f;
    V s = z * by.sine[P::SINES - 1], c = z * by.cosine[P::COSINES - 1];
    DOTSKETCH_UNROLL for (int i = P::SINES - 2; i >= 0; --i) s = (s + by.sine[i]) * z;
    DOTSKETCH_UNROLL for (int i = P::COSINES - 2; i >= 0; --i) c = (c + by.cosine[i]) * z;
    s = ((s + by.first_rest) + by.first) * f;
    c = c + by.scale;
    // An odd number of quarter turns exchanges them; two change the signs.
    const I n = reinterpret_cast<I>(shifted);
    const I exchanged = (reinterpret_cast<I>(s) ^ reinterpret_cast<I>(c)) & -(n & 1);
    cosine = reinterpret_cast<V>(reinterpret_cast<I>(c) ^ exchanged ^ (((n + 1) << (P::BITS - 2)) & SIGN));
    sine = reinterpret_cast<V>(reinterpret_cast<I>(s) ^ exchanged ^ ((n << (P::BITS - 2)) & SIGN));
}

// All of a group of vectors: larger angles, which a vector seldom holds, lose whole turns first (fmod is exact).
template <class T, int COUNT>
DOTSKETCH_INLINE void bring_into_range(WideVector<T> (&t)[COUNT]) {
    using I = typename WideOf<T>::integers;
    constexpr T LIMIT = WavePolynomials<T>::LIMIT;
    I beyond{};
    DOTSKETCH_UNROLL for (int i = 0; i < COUNT; ++i) beyond |= (t[i] >= LIMIT) | (t[i] <= -LIMIT);
    std::uint64_t words[WIDE_BYTES / 8], any_beyond = 0;
    std::memcpy(words, &beyond, sizeof(words));
    DOTSKETCH_UNROLL for (int i = 0; i < int(WIDE_BYTES / 8); ++i) any_beyond |= words[i];
    if (__builtin_expect(any_beyond == 0, 1)) return;
    for (int i = 0; i < COUNT; ++i)
        for (Index lane = 0; lane < WIDE_LANES<T>; ++lane)
            if (!(t[i][lane] < LIMIT && t[i][lane] > -LIMIT)) t[i][lane] = T(__builtin_fmod(double(t[i][lane]), 4.0));
}

// Lanes FIRST, FIRST + 1, ... of two vectors in turns: parts of complex numbers side by side.
template <Index FIRST, class V, std::size_t... LANE>
DOTSKETCH_INLINE V interleaved(V re, V im, std::index_sequence<LANE...>) {
    return DOTSKETCH_SHUFFLE(re, im, (FIRST + LANE / 2 + (LANE % 2) * sizeof...(LANE))...);
}

// The first `count` lanes of a vector to elements that are `stride` apart.
template <class T>
DOTSKETCH_INLINE void put_lanes(WideVector<T> value, Index count, T* to, Index stride) {
    if (count == WIDE_LANES<T> && stride == 1) return store_wide(to, value);
    T lanes[WIDE_LANES<T>];
    store_wide(lanes, value);
    for (Index i = 0; i < count; ++i) to[i * stride] = lanes[i];
}

template <class T>
DOTSKETCH_INLINE void put_waves(const Output<T>& out, Index row, Index column, WideVector<T> cosine,
                                WideVector<T> sine) {
    constexpr Index L = WIDE_LANES<T>;
    const Index count = out.columns - column < L ? out.columns - column : L;
    T* const re = out.re + row * out.re_row_stride + column * out.re_column_stride;
    if (!out.im) return put_lanes<T>(cosine, count, re, out.re_column_stride);
    T* const im = out.im + row * out.im_row_stride + column * out.im_column_stride;
    if (count == L && im == re + 1 && out.re_column_stride == 2 && out.im_column_stride == 2) {  // one complex matrix
        using Lanes = std::make_index_sequence<std::size_t(L)>;
        store_wide(re, interleaved<0>(cosine, sine, Lanes{}));
        store_wide(re + L, interleaved<L / 2>(cosine, sine, Lanes{}));
        return;
    }
    put_lanes<T>(cosine, count, re, out.re_column_stride);
    put_lanes<T>(sine, count, im, out.im_column_stride);
}

// The angles of ROWS rows at one vector of columns: products with the frequencies, in the order of the coordinates, ...
template <class T, int ROWS>
DOTSKETCH_INLINE void load_angles(const WavesArguments<T>& arguments, Index row, Index column,
                                  WideVector<T> (&t)[ROWS]) {
    using V = WideVector<T>;
    const Input<T>& X = arguments.X;
    const T* const x = X.data + row * X.row_stride;
    const V first = arguments.phases ? load_wide(arguments.phases + column) : V{};
    DOTSKETCH_UNROLL for (int r = 0; r < ROWS; ++r) t[r] = first;
    if (arguments.frequencies) {
        const Index in_block = column % WAVE_BLOCK;
        const T* frequency = arguments.frequencies + (column - in_block) * X.columns + in_block;
        for (Index k = 0; k < X.columns; ++k, frequency += WAVE_BLOCK) {
            const V w = load_wide(frequency);
            DOTSKETCH_UNROLL for (int r = 0; r < ROWS; ++r) t[r] += w * x[r * X.row_stride + k];
        }
        return;
    }
    // ... or X itself.
    const Index left = X.columns - column;
    DOTSKETCH_UNROLL for (int r = 0; r < ROWS; ++r) {
        const T* const from = x + r * X.row_stride + column;
        if (left >= WIDE_LANES<T>) {
            t[r] += load_wide(from);
        } else {
            T lanes[WIDE_LANES<T>] = {};
            for (Index i = 0; i < left; ++i) lanes[i] = from[i];
            t[r] += load_wide(lanes);
        }
    }
}

template <class T, int ROWS>
DOTSKETCH_INLINE void waves_of_rows(const WavesArguments<T>& arguments, const WaveScale<T>& by, Index row,
                                    Index first_column, Index end_column) {
    using V = WideVector<T>;
    for (Index column = first_column; column < end_column; column += WIDE_LANES<T>) {
        V t[ROWS];
        load_angles<T, ROWS>(arguments, row, column, t);
        bring_into_range<T>(t);
        DOTSKETCH_UNROLL for (int r = 0; r < ROWS; ++r) {
            V cosine, sine;
            waves_of<T>(t[r], by, cosine, sine);
            put_waves(arguments.out, row + r, column, cosine, sine);
        }
    }
}

template <class T>
void waves(const WavesArguments<T>& arguments) {
    constexpr int ROWS = 8;                    // share a vector of frequencies, and hide the latency of additions
    constexpr Index CACHED_BYTES = 16 * 1024;  // of frequencies: half of the first-level cache
    const Index columns = arguments.out.columns, rows = arguments.X.rows;
    const WaveScale<T> by(arguments.scale);
    Index panel = columns;
    if (arguments.frequencies) {
        const Index block_bytes = WAVE_BLOCK * arguments.X.columns * Index(sizeof(T));
        panel = WAVE_BLOCK * (block_bytes < CACHED_BYTES ? CACHED_BYTES / block_bytes : 1);
    }
    for (Index first = 0; first < columns; first += panel) {
        const Index end = first + panel < columns ? first + panel : columns;
        Index row = 0;
        for (; row + ROWS <= rows; row += ROWS) waves_of_rows<T, ROWS>(arguments, by, row, first, end);
        for (; row < rows; ++row) waves_of_rows<T, 1>(arguments, by, row, first, end);
    }
}

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
