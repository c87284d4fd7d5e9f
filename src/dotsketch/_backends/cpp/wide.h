// Vectors of 64 bytes where AVX-512 exists, for kernels that move nothing across lanes.
#pragma once

#include "lanes.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

#if defined(__AVX512F__)
constexpr Index WIDE_BYTES = 64;
#else
constexpr Index WIDE_BYTES = VECTOR_BYTES;
#endif

template <class T>
struct WideOf;
template <>
struct WideOf<float> {
    typedef float type __attribute__((vector_size(WIDE_BYTES)));
    typedef float unaligned __attribute__((vector_size(WIDE_BYTES), aligned(4), may_alias));
    typedef std::int32_t integers __attribute__((vector_size(WIDE_BYTES)));
    typedef std::int32_t integer;
};
template <>
struct WideOf<double> {
    typedef double type __attribute__((vector_size(WIDE_BYTES)));
    typedef double unaligned __attribute__((vector_size(WIDE_BYTES), aligned(8), may_alias));
    typedef std::int64_t integers __attribute__((vector_size(WIDE_BYTES)));
    typedef std::int64_t integer;
};

template <class T>
using WideVector = typename WideOf<T>::type;

template <class T>
constexpr Index WIDE_LANES = WIDE_BYTES / Index(sizeof(T));

template <class T>
DOTSKETCH_INLINE WideVector<T> load_wide(const T* from) {
    return *reinterpret_cast<const typename WideOf<T>::unaligned*>(from);
}

template <class T>
DOTSKETCH_INLINE void store_wide(T* to, WideVector<T> value) {
    *reinterpret_cast<typename WideOf<T>::unaligned*>(to) = value;
}

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
