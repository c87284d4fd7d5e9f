// max |x| over a matrix: NaN if there is one, for it tells at once whether all entries are finite.
//
// Without its sign bit, a floating-point number is ordered like the integer of the same bits, NaN above infinity.
#pragma once

#include "lanes.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

template <class T>
struct BitsOf;
template <>
struct BitsOf<float> {
    typedef std::int32_t type;
    typedef std::int32_t vector __attribute__((vector_size(VECTOR_BYTES)));
};
template <>
struct BitsOf<double> {
    typedef std::int64_t type;
    typedef std::int64_t vector __attribute__((vector_size(VECTOR_BYTES)));
};

template <class T>
double largest_entry(const Input<T>& X) {
    using Bits = typename BitsOf<T>::type;
    using V = typename BitsOf<T>::vector;
    constexpr Bits MAGNITUDE = Bits(~(std::uint64_t(1) << (8 * sizeof(T) - 1)));
    constexpr Index L = LANES<T>;
    constexpr int CHAINS = 4;  // independent maxima, to hide their latency
    V largest[CHAINS] = {};
    Bits rest = 0;
    for (Index row = 0; row < X.rows; ++row) {
        const T* const x = X.data + row * X.row_stride;
        Index column = 0;
        for (; column + CHAINS * L <= X.columns; column += CHAINS * L)
            DOTSKETCH_UNROLL for (int i = 0; i < CHAINS; ++i) {
                const V bits = reinterpret_cast<V>(load(x + column + i * L)) & MAGNITUDE;
                largest[i] = bits > largest[i] ? bits : largest[i];
            }
        for (; column < X.columns; ++column) {
            Bits bits;
            std::memcpy(&bits, x + column, sizeof(T));
            bits &= MAGNITUDE;
            rest = bits > rest ? bits : rest;
        }
    }
    for (int i = 0; i < CHAINS; ++i)
        for (Index lane = 0; lane < L; ++lane) rest = largest[i][lane] > rest ? largest[i][lane] : rest;
    T value;
    std::memcpy(&value, &rest, sizeof(T));
    return double(value);
}

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
