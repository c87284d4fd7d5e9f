// Sums over all pairs (i, j) of a block of rows and a block of columns, in one pass: the statistics that decide how
// a budget of projections is spread over the degrees of an expansion.
//
// Lane = column. The block is cut into strips of columns, whose weights stay in the cache, and row by row of a strip
// - `write_products` raises the powers of dot degree by degree in registers and writes t_b of every pair,
// - `add_terms` does the same for the differences of powers that make the variances, and
// - `add_gram` adds all products of two t_b, a symmetric rank-k update; values - sum_b t_b is one more t_b to it.
// Sums run over the columns of a strip, lane by lane, and then over rows and strips: rounding stays small.
#pragma once

#include "scratch.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

using Pairs = Vector<double>;

constexpr Index STRIP_COLUMNS = 128;  // with 11 blocks everything a row needs fills the L1 cache
constexpr Index COLUMNS_AT_ONCE = 4 * LANES<double>;
constexpr Index GRAM_BLOCK = 3;  // rows of the Gram matrix: 3 x 3 sums fit in 16 registers
constexpr Index GRAM_BLOCK_SUMS = GRAM_BLOCK * GRAM_BLOCK;
static_assert(STRIP_COLUMNS % COLUMNS_AT_ONCE == 0, "");

// a * b + c, fused where the machine can: these sums, unlike features, may have other bits on other machines.
DOTSKETCH_INLINE Pairs multiply_add(Pairs a, Pairs b, Pairs c) {
    return add_exact_product(a, b, c);
}

DOTSKETCH_INLINE Pairs at_least(double bound, Pairs v) {
    return v < bound ? broadcast(bound) : v;  // keeps NaN
}

DOTSKETCH_INLINE double sum_of_lanes(Pairs v) {
    double sum = 0;
    for (Index lane = 0; lane < LANES<double>; ++lane) sum += v[lane];
    return sum;
}

// The columns of a strip; columns beyond the last have zero weights and are not counted.
struct Strip {
    double* right;          // (blocks, STRIP_COLUMNS): weights, blocks in the order of their degrees
    double* squared_right;  // the same shape
    double* lengths;        // (STRIP_COLUMNS,)
    double* counted;        // (STRIP_COLUMNS,): 1 for the pairs of this row that count, 0 for others
    Index width;            // columns in use, a multiple of COLUMNS_AT_ONCE
};

// One row of a strip: pointers to at least strip.width numbers each.
struct PairRow {
    const double* dot;
    const double* squares;
    const double* values;
    const double* left;  // (blocks,), in the order of the degrees
    double length;
};

struct Excess {
    double beta, gamma, squares, bound;
};

// The t_b of one row's pairs and, as one row more, their rest; returns the sum of squared values.
inline Pairs write_products(const PairRow& row, const Strip& strip, const std::int32_t* degrees, Index blocks,
                            double* products) {
    constexpr int AT_ONCE = 4;  // vectors: hides the latency of the running power
    static_assert(COLUMNS_AT_ONCE == AT_ONCE * LANES<double>, "");
    const double* const left = row.left;
    const Index width = strip.width;
    Pairs values_square = {};
    for (Index column = 0; column < width; column += COLUMNS_AT_ONCE) {
        const double* right = strip.right + column;
        double* product = products + column;
        Pairs dot[AT_ONCE], power[AT_ONCE], rest[AT_ONCE];
        DOTSKETCH_UNROLL
        for (int v = 0; v < AT_ONCE; ++v) {
            dot[v] = load(row.dot + column + v * LANES<double>);
            power[v] = load(strip.counted + column + v * LANES<double>);
            rest[v] = load(row.values + column + v * LANES<double>);
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

// single[b] += sum of squared_right * ((s + x)^n - s^n),
// covariance[b] += sum of squared_right * (s^n - (s - shared x)^n) / shared.
//
// With s = dot^2 and x = excess the differences obey D_{n+1} = a D_n + x s^n, D_0 = 0, for a = s + x as well as for
// a = s - shared x, where D_n = (a^n - s^n) x / (a - s): no cancellation, and both share the powers x s^n.
template <bool CORRELATED>
void add_terms(const PairRow& row, const Strip& strip, const std::int32_t* degrees, Index blocks, const Excess& excess,
               double shared, Pairs* single, Pairs* covariance) {
    constexpr int AT_ONCE = 2;  // vectors: what 16 registers hold
    const Index width = strip.width;
    for (Index column = 0; column < width; column += AT_ONCE * LANES<double>) {
        const double* squared_right = strip.squared_right + column;
        Pairs s[AT_ONCE], power[AT_ONCE];  // power: x s^n
        Pairs single_base[AT_ONCE], shared_base[AT_ONCE], single_difference[AT_ONCE], shared_difference[AT_ONCE];
        DOTSKETCH_UNROLL
        for (int v = 0; v < AT_ONCE; ++v) {
            const Index place = column + v * LANES<double>;
            const Pairs dot = load(row.dot + place), squares = load(row.squares + place);
            const Pairs norms = load(strip.counted + place) * load(strip.lengths + place) * row.length;
            s[v] = dot * dot;
            const Pairs beta = at_least(0, norms - squares), gamma = s[v] - squares;
            const Pairs x = at_least(
                excess.bound, excess.beta * beta + excess.gamma * gamma + excess.squares * squares);
            power[v] = x;
            single_base[v] = s[v] + x;
            shared_base[v] = s[v] - shared * x;
            single_difference[v] = shared_difference[v] = Pairs{};
        }
        std::int32_t degree = 0;
        for (Index b = 0; b < blocks; ++b, squared_right += STRIP_COLUMNS) {
            for (; degree < degrees[b]; ++degree)
                DOTSKETCH_UNROLL
                for (int v = 0; v < AT_ONCE; ++v) {
                    single_difference[v] = multiply_add(single_base[v], single_difference[v], power[v]);
                    if constexpr (CORRELATED)
                        shared_difference[v] = multiply_add(shared_base[v], shared_difference[v], power[v]);
                    power[v] *= s[v];
                }
            Pairs single_sum = single[b], covariance_sum = covariance[b];
            DOTSKETCH_UNROLL
            for (int v = 0; v < AT_ONCE; ++v) {
                const Pairs weight = load(squared_right + v * LANES<double>);
                single_sum = multiply_add(weight, single_difference[v], single_sum);
                if constexpr (CORRELATED)
                    covariance_sum = multiply_add(weight, shared_difference[v], covariance_sum);
            }
            single[b] = single_sum;
            if constexpr (CORRELATED) covariance[b] = covariance_sum;
        }
    }
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

// The running sums of one call; blocks are in the order of their degrees until `finish`.
template <bool CORRELATED>
class PairSummation {
  public:
    explicit PairSummation(const PairSumsArguments& arguments)
        : arguments_(arguments),
          blocks_(arguments.blocks),
          gram_blocks_((blocks_ + GRAM_BLOCK) / GRAM_BLOCK),  // one row more than blocks, for the rest
          scratch_(bytes(), PIECES) {
        products_ = reinterpret_cast<double*>(zeros(product_vectors()));  // rows beyond the rest stay zero
        gram_ = zeros(gram_vectors());
        single_ = zeros(blocks_);
        covariance_ = zeros(blocks_);
        single_total_ = zeros(blocks_);
        covariance_total_ = zeros(blocks_);
        strip_ = {scratch_.take<double>(blocks_ * STRIP_COLUMNS), scratch_.take<double>(blocks_ * STRIP_COLUMNS),
                  scratch_.take<double>(STRIP_COLUMNS), scratch_.take<double>(STRIP_COLUMNS), 0};
        for (double*& copy : copies_) copy = scratch_.take<double>(STRIP_COLUMNS);
        left_ = scratch_.take<double>(blocks_);
        order_ = scratch_.take<std::int32_t>(blocks_);
        degrees_ = scratch_.take<std::int32_t>(blocks_);
        sort_blocks();
        for (Index e = 0; e < arguments.excesses; ++e) {
            const double* const weights = arguments.excess + 4 * e;
            excess_[e] = {weights[0], weights[1], weights[2], weights[3] != 0 ? 0.0 : -__builtin_inf()};
        }
    }

    void load_strip(Index start) {
        const Index rest = arguments_.dot.columns - start;
        start_ = start;
        used_ = rest < STRIP_COLUMNS ? rest : STRIP_COLUMNS;
        strip_.width = (used_ + COLUMNS_AT_ONCE - 1) / COLUMNS_AT_ONCE * COLUMNS_AT_ONCE;
        for (Index j = 0; j < strip_.width; ++j) {
            strip_.counted[j] = j < used_ ? 1 : 0;
            strip_.lengths[j] = j < used_ ? arguments_.right_lengths[start + j] : 0;
            for (Index b = 0; b < blocks_; ++b) {
                const double weight = j < used_ ? arguments_.right[(start + j) * blocks_ + order_[b]] : 0;
                strip_.right[b * STRIP_COLUMNS + j] = weight;
                strip_.squared_right[b * STRIP_COLUMNS + j] = weight * weight;
            }
        }
    }

    void add_row(Index i) {
        for (Index b = 0; b < blocks_; ++b) left_[b] = arguments_.left[i * blocks_ + order_[b]];
        Index skipped = arguments_.skip_diagonal ? i - start_ : -1;
        if (skipped >= used_) skipped = -1;
        if (skipped >= 0) strip_.counted[skipped] = 0;
        const PairRow row = {numbers_of_row(arguments_.dot, i, skipped, copies_[0]),
                             numbers_of_row(arguments_.squares, i, skipped, copies_[1]),
                             numbers_of_row(arguments_.values, i, skipped, copies_[2]), left_,
                             arguments_.left_lengths[i]};
        values_square_ += write_products(row, strip_, degrees_, blocks_, products_);
        add_gram(products_, gram_blocks_, strip_.width, gram_);
        for (Index e = 0; e < arguments_.excesses; ++e)
            add_terms<CORRELATED>(row, strip_, degrees_, blocks_, excess_[e], arguments_.shared, single_, covariance_);
        add_to_total(single_, single_total_);
        if constexpr (CORRELATED) add_to_total(covariance_, covariance_total_);
        if (skipped >= 0) strip_.counted[skipped] = 1;
    }

    void finish() const {
        const Index B = blocks_;
        const double excesses = double(arguments_.excesses);
        for (Index a = 0; a < B; ++a) {
            const Index block = order_[a];
            for (Index b = 0; b <= a; ++b) {
                const double sum = gram_sum(gram_, a, b);
                arguments_.gram[block * B + order_[b]] += sum;
                if (a != b) arguments_.gram[order_[b] * B + block] += sum;
            }
            arguments_.tail[block] += gram_sum(gram_, B, a);
            arguments_.terms[2 * block] += sum_of_lanes(single_total_[a]) / excesses;
            arguments_.terms[2 * block + 1] -= arguments_.shared * sum_of_lanes(covariance_total_[a]) / excesses;
        }
        arguments_.squares_out[0] += gram_sum(gram_, B, B);
        arguments_.squares_out[1] += sum_of_lanes(values_square_);
    }

  private:
    static constexpr Index PIECES = 16;

    Index product_vectors() const { return gram_blocks_ * GRAM_BLOCK * STRIP_COLUMNS / LANES<double>; }
    Index gram_vectors() const { return gram_blocks_ * (gram_blocks_ + 1) / 2 * GRAM_BLOCK_SUMS; }

    Index bytes() const {
        const Index vectors = product_vectors() + gram_vectors() + 4 * blocks_;
        const Index numbers = (2 * blocks_ + 5) * STRIP_COLUMNS + blocks_;
        return vectors * VECTOR_BYTES + numbers * Index(sizeof(double)) + 2 * blocks_ * Index(sizeof(std::int32_t));
    }

    Pairs* zeros(Index count) {
        Pairs* const vectors = scratch_.take<Pairs>(count);
        for (Index i = 0; i < count; ++i) vectors[i] = Pairs{};
        return vectors;
    }

    void sort_blocks() {  // by insertion: blocks of one degree stay in order
        for (Index b = 0; b < blocks_; ++b) {
            Index place = b;
            for (; place > 0 && degrees_[place - 1] > arguments_.degrees[b]; --place) {
                order_[place] = order_[place - 1];
                degrees_[place] = degrees_[place - 1];
            }
            order_[place] = std::int32_t(b);
            degrees_[place] = arguments_.degrees[b];
        }
    }

    // The numbers of row i in this strip where they are or, if some must not count, a copy with zeros there.
    const double* numbers_of_row(const Input<double>& matrix, Index i, Index skipped, double* copy) const {
        const double* const numbers = matrix.data + i * matrix.row_stride + start_;
        if (used_ == strip_.width && skipped < 0) return numbers;
        for (Index j = 0; j < strip_.width; ++j) copy[j] = j < used_ && j != skipped ? numbers[j] : 0;
        return copy;
    }

    void add_to_total(Pairs* sums, Pairs* totals) const {
        for (Index b = 0; b < blocks_; ++b) {
            totals[b] = multiply_add(broadcast(left_[b] * left_[b]), sums[b], totals[b]);
            sums[b] = Pairs{};
        }
    }

    const PairSumsArguments& arguments_;
    const Index blocks_;
    const Index gram_blocks_;
    Scratch scratch_;
    double* products_;  // (gram_blocks * GRAM_BLOCK, STRIP_COLUMNS)
    Pairs* gram_;
    Pairs *single_, *covariance_;  // of one row
    Pairs *single_total_, *covariance_total_;
    Pairs values_square_ = {};
    Strip strip_;
    Index start_ = 0, used_ = 0;  // the strip's first column, and how many
    double* copies_[3];
    double* left_;
    std::int32_t *order_, *degrees_;
    Excess excess_[2];
};

template <bool CORRELATED>
void pair_sums_of(const PairSumsArguments& arguments) {
    PairSummation<CORRELATED> sums(arguments);
    for (Index start = 0; start < arguments.dot.columns; start += STRIP_COLUMNS) {
        sums.load_strip(start);
        for (Index i = 0; i < arguments.dot.rows; ++i) sums.add_row(i);
    }
    sums.finish();
}

inline void pair_sums(const PairSumsArguments& arguments) {
    arguments.shared != 0 ? pair_sums_of<true>(arguments) : pair_sums_of<false>(arguments);
}

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
