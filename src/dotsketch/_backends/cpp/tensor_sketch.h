// TensorSketch: the cyclic convolution over degrees j of the count sketches out[buckets_j[k]] += i^turns_j[k] * x_k.
//
// Everything happens in one tile: the counts are added up in the lanes, transformed in place, and multiplied into the
// running product of spectra, which is transformed back once.
#pragma once

#include "fourier.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

// product *= factor, entry by entry; the first `real_values` of `count` entries are real, the others (re, im) pairs.
template <class T>
DOTSKETCH_INLINE void multiply_spectra(Vector<T>* product, const Vector<T>* factor, Index real_values, Index count) {
    for (Index k = 0; k < real_values; ++k) product[k] *= factor[k];
    for (Index k = real_values; k < count; k += 2) {
        const Vector<T> re = product[k], im = product[k + 1];
        product[k] = re * factor[k] - im * factor[k + 1];
        product[k + 1] = re * factor[k + 1] + im * factor[k];
    }
}

template <class T, int PLANES>
void tensor_sketch_planes(const TensorSketchArguments<T>& arguments) {
    using V = Vector<T>;
    const Input<T>& X = arguments.X;
    const Index length = arguments.out.columns, size = PLANES * length, weights = arguments.degree * X.columns;
    Scratch scratch((X.columns + 2 * size) * VECTOR_BYTES + weights * Index(sizeof(T) + sizeof(std::int32_t)) +
                        Fourier<T, PLANES>::bytes(length),
                    5 + Fourier<T, PLANES>::PIECES);
    V* const x = scratch.take<V>(X.columns);
    V* const product = scratch.take<V>(size);
    V* const factor = scratch.take<V>(size);
    T* const signs = scratch.take<T>(weights);
    std::int32_t* const places = scratch.take<std::int32_t>(weights);
    const Fourier<T, PLANES> fourier(scratch, length);
    for (Index i = 0; i < weights; ++i) {
        const int turn = arguments.turns[i];
        signs[i] = turn & 2 ? T(-1) : T(1);
        places[i] = std::int32_t(arguments.buckets[i] + (turn & 1 ? length : 0));  // odd turns are imaginary
    }

    for (Index row = 0; row < X.rows; row += LANES<T>) {
        const Index rows = X.rows - row < LANES<T> ? X.rows - row : LANES<T>;
        load_tile(X, row, rows, x);
        for (Index j = 0; j < arguments.degree; ++j) {
            V* const counts = j == 0 ? product : factor;
            for (Index i = 0; i < size; ++i) counts[i] = V{};
            for (Index k = 0; k < X.columns; ++k)
                counts[places[j * X.columns + k]] += x[k] * signs[j * X.columns + k];
            fourier.forward(counts);
            if (j > 0) multiply_spectra<T>(product, factor, fourier.real_values(), size);
        }
        prefetch_tile<PLANES>(arguments.out, row, rows, 0, length);
        fourier.inverse(product);
        const V scale = tile_factor(arguments.scaling, row, rows) * (T(1) / T(length));
        store_tile<PLANES>(product, 1, length, arguments.out, row, rows, 0, length, scale);
    }
}

template <class T>
void tensor_sketch(const TensorSketchArguments<T>& arguments) {
    if (arguments.out.im)
        tensor_sketch_planes<T, 2>(arguments);
    else
        tensor_sketch_planes<T, 1>(arguments);
}

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
