// Sums over pairs of the terms t_b of an expansion and of what it leaves out: t t', t R, R^2 and k^2.
//
// Row by row of a strip `write_products` raises the powers of dot degree by degree in registers and writes t_b of
// every pair; `add_gram` adds all products of two t_b, a symmetric rank-k update; values - sum_b t_b is one more t_b
// to it.
#pragma once

#include "pair_strips.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

constexpr Index GRAM_BLOCK = 3;  // rows of the Gram matrix: 3 x 3 sums fit in 16 registers
constexpr Index GRAM_BLOCK_SUMS = GRAM_BLOCK * GRAM_BLOCK;

// The t_b of one row's pairs and, as one row more, their rest; returns the sum of squared values.
inline Pairs write_products(const double* dots, const double* values, const PairStrips& strips, double* products) {
    constexpr int AT_ONCE = 4;  // vectors: hides the latency of the running power
    static_assert(COLUMNS_AT_ONCE == AT_ONCE * LANES<double>, "");
    const double* const left = strips.left();
    const std::int32_t* const degrees = strips.degrees();
    const Index width = strips.width(), blocks = strips.blocks();
    Pairs values_square = {};
    for (Index column = 0; column < width; column += COLUMNS_AT_ONCE) {
        const double* right = strips.right() + column;
        double* product = products + column;
        Pairs dot[AT_ONCE], power[AT_ONCE], rest[AT_ONCE];
        DOTSKETCH_UNROLL
        for (int v = 0; v < AT_ONCE; ++v) {
            dot[v] = load(dots + column + v * LANES<double>);
            power[v] = load(strips.counted() + column + v * LANES<double>);
            rest[v] = load(values + column + v * LANES<double>);
            values_square = multiply_add(rest[v], rest[v], values_square);
        }
        std::int32_t degree = 0;
        for (Index b = 0; b < blocks; ++b, right += STRIP_COLUMNS, product += STRIP_COLUMNS) {
            for (; degree < degrees[b]; ++degree)
                DOTSKETCH_UNROLL
                for (int v = 0; v < AT_ONCE; ++v) power[v] *= dot[v];
            DOTSKETCH_UNROLL
            for (int v = 0; v < AT_ONCE; ++v) {
                const Pairs t = left[b] * load(right + v * LANES<double>) * power[v];
                store(product + v * LANES<double>, t);
                rest[v] -= t;
            }
        }
        DOTSKETCH_UNROLL
        for (int v = 0; v < AT_ONCE; ++v) store(product + v * LANES<double>, rest[v]);
    }
    return values_square;
}

// sums[a, b] += sum_k left[a, k] right[b, k] for a block of the Gram matrix; below the diagonal only where
// left is right.
template <bool ON_DIAGONAL>
DOTSKETCH_INLINE void add_products(const double* left, const double* right, Index pairs, Pairs* sums) {
    Pairs sum[GRAM_BLOCK][GRAM_BLOCK] = {};
    for (Index k = 0; k < pairs; k += LANES<double>) {
        Pairs r[GRAM_BLOCK];
        DOTSKETCH_UNROLL
        for (int b = 0; b < GRAM_BLOCK; ++b) r[b] = load(right + b * STRIP_COLUMNS + k);
        DOTSKETCH_UNROLL
        for (int a = 0; a < GRAM_BLOCK; ++a) {
            const Pairs l = ON_DIAGONAL ? r[a] : load(left + a * STRIP_COLUMNS + k);
            DOTSKETCH_UNROLL
            for (int b = 0; b <= (ON_DIAGONAL ? a : GRAM_BLOCK - 1); ++b)
                sum[a][b] = multiply_add(l, r[b], sum[a][b]);
        }
    }
    DOTSKETCH_UNROLL
    for (int a = 0; a < GRAM_BLOCK; ++a)
        DOTSKETCH_UNROLL
        for (int b = 0; b <= (ON_DIAGONAL ? a : GRAM_BLOCK - 1); ++b) sums[a * GRAM_BLOCK + b] += sum[a][b];
}

// The lower triangle of products products^T, blocks row by row.
inline void add_gram(const double* products, Index gram_blocks, Index pairs, Pairs* sums) {
    for (Index a = 0; a < gram_blocks; ++a) {
        const double* const left = products + a * GRAM_BLOCK * STRIP_COLUMNS;
        for (Index b = 0; b < a; ++b, sums += GRAM_BLOCK_SUMS)
            add_products<false>(left, products + b * GRAM_BLOCK * STRIP_COLUMNS, pairs, sums);
        add_products<true>(left, left, pairs, sums);
        sums += GRAM_BLOCK_SUMS;
    }
}

// Sum of row a times row b <= a of the products.
inline double gram_sum(const Pairs* sums, Index a, Index b) {
    const Index block_row = a / GRAM_BLOCK, block = block_row * (block_row + 1) / 2 + b / GRAM_BLOCK;
    return sum_of_lanes(sums[block * GRAM_BLOCK_SUMS + a % GRAM_BLOCK * GRAM_BLOCK + b % GRAM_BLOCK]);
}

inline void pair_gram(const PairGramArguments& arguments) {
    PairStrips strips(arguments.pairs);
    const Index B = strips.blocks(), gram_blocks = (B + GRAM_BLOCK) / GRAM_BLOCK;  // one row more, for the rest
    const Index product_vectors = gram_blocks * GRAM_BLOCK * STRIP_COLUMNS / LANES<double>;
    const Index gram_vectors = gram_blocks * (gram_blocks + 1) / 2 * GRAM_BLOCK_SUMS;
    Scratch scratch((product_vectors + gram_vectors) * VECTOR_BYTES + 2 * STRIP_COLUMNS * Index(sizeof(double)), 4);
    double* const products = reinterpret_cast<double*>(take_zeros(scratch, product_vectors));  // zero beyond the rest
    Pairs* const gram = take_zeros(scratch, gram_vectors);
    double* const dot_copy = scratch.take<double>(STRIP_COLUMNS);
    double* const values_copy = scratch.take<double>(STRIP_COLUMNS);
    Pairs values_square = {};
    strips.for_every_row([&](Index i) {
        const double* const dots = strips.numbers_of_row(arguments.pairs.dot, i, dot_copy);
        const double* const values = strips.numbers_of_row(arguments.values, i, values_copy);
        values_square += write_products(dots, values, strips, products);
        add_gram(products, gram_blocks, strips.width(), gram);
    });
    for (Index a = 0; a < B; ++a) {
        const Index block = strips.block(a);
        for (Index b = 0; b <= a; ++b) {
            const double sum = gram_sum(gram, a, b);
            arguments.gram[block * B + strips.block(b)] += sum;
            if (a != b) arguments.gram[strips.block(b) * B + block] += sum;
        }
        arguments.tail[block] += gram_sum(gram, B, a);
    }
    arguments.squares_out[0] += gram_sum(gram, B, B);
    arguments.squares_out[1] += sum_of_lanes(values_square);
}

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
