// Count sketch: out[:, buckets[k]] += i^turns[k] * x[:, k], over tiles.
#pragma once

#include "scratch.h"
#include "tile.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

template <class T, int PLANES>
void count_sketch_planes(const CountSketchArguments<T>& arguments) {
    using V = Vector<T>;
    const Input<T>& X = arguments.X;
    const Output<T>& out = arguments.out;
    const Index vectors = X.columns + PLANES * out.columns;
    Scratch scratch(vectors * VECTOR_BYTES + X.columns * Index(sizeof(T) + sizeof(std::int32_t)), 4);
    V* const x = scratch.take<V>(X.columns);
    V* const sums = scratch.take<V>(PLANES * out.columns);
    T* const signs = scratch.take<T>(X.columns);
    std::int32_t* const places = scratch.take<std::int32_t>(X.columns);
    for (Index k = 0; k < X.columns; ++k) {
        const int turn = arguments.turns[k];
        signs[k] = turn & 2 ? T(-1) : T(1);
        places[k] = std::int32_t(PLANES * arguments.buckets[k] + (turn & 1));  // odd turns are imaginary
    }

    for (Index row = 0; row < X.rows; row += LANES<T>) {
        const Index rows = X.rows - row < LANES<T> ? X.rows - row : LANES<T>;
        load_tile(X, row, rows, x);
        for (Index i = 0; i < PLANES * out.columns; ++i) sums[i] = V{};
        for (Index k = 0; k < X.columns; ++k) sums[places[k]] += x[k] * signs[k];
        store_tile<PLANES>(sums, out, row, rows, 0, out.columns, broadcast<T>(1));
    }
}

template <class T>
void count_sketch(const CountSketchArguments<T>& arguments) {
    if (arguments.out.im)
        count_sketch_planes<T, 2>(arguments);
    else
        count_sketch_planes<T, 1>(arguments);
}

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
