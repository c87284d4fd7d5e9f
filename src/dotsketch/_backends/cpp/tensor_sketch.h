// TensorSketch: the cyclic convolution over degrees j of the count sketches out[buckets_j[k]] += i^turns_j[k] * x_k.
//
// Everything happens in one tile: the counts are added up in the lanes, transformed in place, and multiplied into the
// running product of spectra, which is transformed back once.
#pragma once

#include "fourier.h"
#include "plan.h"

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
struct HashPlan {
    Index degree, coordinates, length;
    Scratch memory;
    T* const signs;              // (degree, coordinates)
    std::int32_t* const places;  // (degree, coordinates): in the counts of all planes
    const Fourier<T, PLANES> fourier;

    explicit HashPlan(const HashWeights& weights)
        : degree(weights.degree),
          coordinates(weights.coordinates),
          length(weights.columns),
          memory(degree * coordinates * Index(sizeof(T) + sizeof(std::int32_t)) + Fourier<T, PLANES>::bytes(length),
                 2 + Fourier<T, PLANES>::PIECES),
          signs(memory.take<T>(degree * coordinates)),
          places(memory.take<std::int32_t>(degree * coordinates)),
          fourier(memory, length) {
        for (Index i = 0; i < degree * coordinates; ++i) {
            const int turn = weights.turns[i];
            signs[i] = turn & 2 ? T(-1) : T(1);
            places[i] = std::int32_t(weights.buckets[i] + (turn & 1 ? length : 0));  // odd turns are imaginary
        }
    }

    void apply(const Input<T>& X, const Output<T>& out, const Scaling<T>& scaling) const {
        using V = Vector<T>;
        const Index size = PLANES * length;
        Scratch scratch((coordinates + 2 * size) * VECTOR_BYTES, 3);
        V* const x = scratch.take<V>(coordinates);
        V* const product = scratch.take<V>(size);
        V* const factor = scratch.take<V>(size);
        for (Index row = 0; row < X.rows; row += LANES<T>) {
            const Index rows = X.rows - row < LANES<T> ? X.rows - row : LANES<T>;
            load_tile(X, row, rows, x);
            for (Index j = 0; j < degree; ++j) {
                V* const counts = j == 0 ? product : factor;
                for (Index i = 0; i < size; ++i) counts[i] = V{};
                for (Index k = 0; k < coordinates; ++k)
                    counts[places[j * coordinates + k]] += x[k] * signs[j * coordinates + k];
                fourier.forward(counts);
                if (j > 0) multiply_spectra<T>(product, factor, fourier.real_values(), size);
            }
            prefetch_tile<PLANES>(out, row, rows, 0, length);
            fourier.inverse(product);
            const V scale = tile_factor(scaling, row, rows) * (T(1) / T(length));
            store_tile<PLANES>(product, 1, length, out, row, rows, 0, length, scale);
        }
    }
};

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
