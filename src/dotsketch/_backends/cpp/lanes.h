// The vector type, its unaligned loads and stores, and its transposes.
//
// Vectors are those of the GCC/Clang extension: 32 bytes where AVX exists, 16 bytes on other machines (SSE2,
// NEON). No kernel adds across lanes in an order that depends on the width, so the results do not depend on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__FMA__)
#include <immintrin.h>
#endif

#include "kernels.h"

#define DOTSKETCH_INLINE __attribute__((always_inline)) inline
#define DOTSKETCH_INLINE_LAMBDA __attribute__((always_inline))
#if defined(__clang__)
#define DOTSKETCH_UNROLL _Pragma("unroll")
#else
#define DOTSKETCH_UNROLL _Pragma("GCC unroll 16")
#endif

namespace dotsketch {
namespace DOTSKETCH_ISA {

#if defined(__AVX__)
constexpr Index VECTOR_BYTES = 32;
#else
constexpr Index VECTOR_BYTES = 16;
#endif
constexpr Index CACHE_LINE_BYTES = 64;

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
    typedef float type __attribute__((vector_size(VECTOR_BYTES)));
    typedef float unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
};
template <>
struct VectorOf<double> {
    typedef double type __attribute__((vector_size(VECTOR_BYTES)));
    typedef double unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));
};

template <class T>
using Vector = typename VectorOf<T>::type;

template <class T>
constexpr Index LANES = VECTOR_BYTES / Index(sizeof(T));

template <class T>
DOTSKETCH_INLINE Vector<T> load(const T* from) {
    return *reinterpret_cast<const typename VectorOf<T>::unaligned*>(from);
}

template <class T>
DOTSKETCH_INLINE void store(T* to, Vector<T> value) {
    *reinterpret_cast<typename VectorOf<T>::unaligned*>(to) = value;
}

template <class T>
DOTSKETCH_INLINE Vector<T> broadcast(T value) {
    return Vector<T>{} + value;
}

// a * b + c where every product is exact (b holds only 1 and -1): fused or not, the same bits.
#if defined(__FMA__)
DOTSKETCH_INLINE Vector<float> add_exact_product(Vector<float> a, Vector<float> b, Vector<float> c) {
    return _mm256_fmadd_ps(a, b, c);
}
DOTSKETCH_INLINE Vector<double> add_exact_product(Vector<double> a, Vector<double> b, Vector<double> c) {
    return _mm256_fmadd_pd(a, b, c);
}
#else
template <class V>
DOTSKETCH_INLINE V add_exact_product(V a, V b, V c) {
    return a * b + c;
}
#endif

#define DOTSKETCH_SHUFFLE __builtin_shufflevector

#if defined(__AVX__)

// Each 128-bit half is transposed by itself (cheap shuffles), then halves are exchanged.
DOTSKETCH_INLINE void transpose(Vector<float> (&r)[8]) {
    Vector<float> s[8], t[8];
    for (int i = 0; i < 8; i += 2) {
        s[i] = DOTSKETCH_SHUFFLE(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        s[i + 1] = DOTSKETCH_SHUFFLE(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
        t[i] = DOTSKETCH_SHUFFLE(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        t[i + 1] = DOTSKETCH_SHUFFLE(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        t[i + 2] = DOTSKETCH_SHUFFLE(s[i + 1], s[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        t[i + 3] = DOTSKETCH_SHUFFLE(s[i + 1], s[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; ++i) {
        r[i] = DOTSKETCH_SHUFFLE(t[i], t[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = DOTSKETCH_SHUFFLE(t[i], t[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

DOTSKETCH_INLINE void transpose(Vector<double> (&r)[4]) {
    Vector<double> s[4];
    for (int i = 0; i < 4; i += 2) {
        s[i] = DOTSKETCH_SHUFFLE(r[i], r[i + 1], 0, 4, 2, 6);
        s[i + 1] = DOTSKETCH_SHUFFLE(r[i], r[i + 1], 1, 5, 3, 7);
    }
    for (int i = 0; i < 2; ++i) {
        r[i] = DOTSKETCH_SHUFFLE(s[i], s[i + 2], 0, 1, 4, 5);
        r[i + 2] = DOTSKETCH_SHUFFLE(s[i], s[i + 2], 2, 3, 6, 7);
    }
}

// Columns of real and imaginary parts -> rows of complex numbers: a complex float moves like a double.
DOTSKETCH_INLINE void transpose_complex(const Vector<float> (&re)[4], const Vector<float> (&im)[4],
                                        Vector<float> (&row)[8]) {
    Vector<double> low[4], high[4];
    for (int i = 0; i < 4; ++i) {
        low[i] = reinterpret_cast<Vector<double>>(DOTSKETCH_SHUFFLE(re[i], im[i], 0, 8, 1, 9, 4, 12, 5, 13));
        high[i] = reinterpret_cast<Vector<double>>(DOTSKETCH_SHUFFLE(re[i], im[i], 2, 10, 3, 11, 6, 14, 7, 15));
    }
    transpose(low);
    transpose(high);
    for (int i = 0; i < 4; ++i) {
        const int r = i + (i & 2);  // 0, 1, 4, 5
        row[r] = reinterpret_cast<Vector<float>>(low[i]);
        row[r + 2] = reinterpret_cast<Vector<float>>(high[i]);
    }
}

DOTSKETCH_INLINE void transpose_complex(const Vector<double> (&re)[2], const Vector<double> (&im)[2],
                                        Vector<double> (&row)[4]) {
    Vector<double> low[2], high[2];
    for (int i = 0; i < 2; ++i) {
        low[i] = DOTSKETCH_SHUFFLE(re[i], im[i], 0, 4, 2, 6);
        high[i] = DOTSKETCH_SHUFFLE(re[i], im[i], 1, 5, 3, 7);
    }
    row[0] = DOTSKETCH_SHUFFLE(low[0], low[1], 0, 1, 4, 5);
    row[1] = DOTSKETCH_SHUFFLE(high[0], high[1], 0, 1, 4, 5);
    row[2] = DOTSKETCH_SHUFFLE(low[0], low[1], 2, 3, 6, 7);
    row[3] = DOTSKETCH_SHUFFLE(high[0], high[1], 2, 3, 6, 7);
}

// Lane i receives lane i ^ DISTANCE.
template <int DISTANCE>
DOTSKETCH_INLINE Vector<float> exchange_lanes(Vector<float> v) {
    static_assert(DISTANCE == 1 || DISTANCE == 2 || DISTANCE == 4, "");
    if constexpr (DISTANCE == 1) return DOTSKETCH_SHUFFLE(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
    if constexpr (DISTANCE == 2) return DOTSKETCH_SHUFFLE(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
    return DOTSKETCH_SHUFFLE(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
}

template <int DISTANCE>
DOTSKETCH_INLINE Vector<double> exchange_lanes(Vector<double> v) {
    static_assert(DISTANCE == 1 || DISTANCE == 2, "");
    if constexpr (DISTANCE == 1) return DOTSKETCH_SHUFFLE(v, v, 1, 0, 3, 2);
    return DOTSKETCH_SHUFFLE(v, v, 2, 3, 0, 1);
}

#else

DOTSKETCH_INLINE void transpose(Vector<float> (&r)[4]) {
    Vector<float> s[4];
    for (int i = 0; i < 4; i += 2) {
        s[i] = DOTSKETCH_SHUFFLE(r[i], r[i + 1], 0, 4, 1, 5);
        s[i + 1] = DOTSKETCH_SHUFFLE(r[i], r[i + 1], 2, 6, 3, 7);
    }
    for (int i = 0; i < 2; ++i) {
        r[2 * i] = DOTSKETCH_SHUFFLE(s[i], s[i + 2], 0, 1, 4, 5);
        r[2 * i + 1] = DOTSKETCH_SHUFFLE(s[i], s[i + 2], 2, 3, 6, 7);
    }
}

DOTSKETCH_INLINE void transpose(Vector<double> (&r)[2]) {
    const Vector<double> first = DOTSKETCH_SHUFFLE(r[0], r[1], 0, 2);
    r[1] = DOTSKETCH_SHUFFLE(r[0], r[1], 1, 3);
    r[0] = first;
}

// Columns of real and imaginary parts -> rows of complex numbers: a complex float moves like a double.
DOTSKETCH_INLINE void transpose_complex(const Vector<float> (&re)[2], const Vector<float> (&im)[2],
                                        Vector<float> (&row)[4]) {
    Vector<double> low[2], high[2];
    for (int i = 0; i < 2; ++i) {
        low[i] = reinterpret_cast<Vector<double>>(DOTSKETCH_SHUFFLE(re[i], im[i], 0, 4, 1, 5));
        high[i] = reinterpret_cast<Vector<double>>(DOTSKETCH_SHUFFLE(re[i], im[i], 2, 6, 3, 7));
    }
    transpose(low);
    transpose(high);
    for (int i = 0; i < 2; ++i) {
        row[i] = reinterpret_cast<Vector<float>>(low[i]);
        row[i + 2] = reinterpret_cast<Vector<float>>(high[i]);
    }
}

DOTSKETCH_INLINE void transpose_complex(const Vector<double> (&re)[1], const Vector<double> (&im)[1],
                                        Vector<double> (&row)[2]) {
    row[0] = DOTSKETCH_SHUFFLE(re[0], im[0], 0, 2);
    row[1] = DOTSKETCH_SHUFFLE(re[0], im[0], 1, 3);
}

// Lane i receives lane i ^ DISTANCE.
template <int DISTANCE>
DOTSKETCH_INLINE Vector<float> exchange_lanes(Vector<float> v) {
    static_assert(DISTANCE == 1 || DISTANCE == 2, "");
    if constexpr (DISTANCE == 1) return DOTSKETCH_SHUFFLE(v, v, 1, 0, 3, 2);
    return DOTSKETCH_SHUFFLE(v, v, 2, 3, 0, 1);
}

template <int DISTANCE>
DOTSKETCH_INLINE Vector<double> exchange_lanes(Vector<double> v) {
    static_assert(DISTANCE == 1, "");
    return DOTSKETCH_SHUFFLE(v, v, 1, 0);
}

#endif

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
