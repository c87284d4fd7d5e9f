// What the sums over all pairs (i, j) of a block of rows and a block of columns share.
//
// Lane = column. The block is cut into strips of columns, whose weights stay in the cache, and walked row by row of a
// strip. Sums run over the columns of a strip, lane by lane, and then over rows and strips: rounding stays small.
#pragma once

#include "scratch.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

using Pairs = Vector<double>;

constexpr Index STRIP_COLUMNS = 128;  // with 11 blocks everything a row needs fills the L1 cache
constexpr Index COLUMNS_AT_ONCE = 4 * LANES<double>;
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

// The strips of a block of pairs. Expansion blocks are in the order of their degrees until the result is written.
class PairStrips {
  public:
    explicit PairStrips(const PairBlock& pairs) : pairs_(pairs), blocks_(pairs.blocks), scratch_(bytes(), PIECES) {
        right_ = scratch_.take<double>(blocks_ * STRIP_COLUMNS);
        squared_right_ = scratch_.take<double>(blocks_ * STRIP_COLUMNS);
        counted_ = scratch_.take<double>(STRIP_COLUMNS);
        left_ = scratch_.take<double>(blocks_);
        order_ = scratch_.take<std::int32_t>(blocks_);
        degrees_ = scratch_.take<std::int32_t>(blocks_);
        sort_blocks();
    }

    // Calls add_row(i) for every row of every strip.
    template <class Function>
    void for_every_row(Function add_row) {
        for (start_ = 0; start_ < pairs_.dot.columns; start_ += STRIP_COLUMNS) {
            load_strip();
            for (Index i = 0; i < pairs_.dot.rows; ++i) {
                load_row(i);
                add_row(i);
            }
        }
    }

    Index blocks() const { return blocks_; }
    const std::int32_t* degrees() const { return degrees_; }  // sorted
    Index block(Index b) const { return order_[b]; }          // the caller's number of block b

    // Of the strip; columns beyond the last have zero weights and are not counted.
    Index start() const { return start_; }                        // its first column
    Index used() const { return used_; }                          // columns of it
    Index width() const { return width_; }                        // the same, up to a multiple of COLUMNS_AT_ONCE
    const double* right() const { return right_; }                // (blocks, STRIP_COLUMNS): weights
    const double* squared_right() const { return squared_right_; }  // the same shape

    // Of the row in a strip.
    const double* left() const { return left_; }        // (blocks,): weights
    const double* counted() const { return counted_; }  // (STRIP_COLUMNS,): 1 for the pairs that count, 0 for others

    // The numbers of row i in this strip where they are or, if some must not count, a copy with zeros there.
    const double* numbers_of_row(const Input<double>& matrix, Index i, double* copy) const {
        const double* const numbers = matrix.data + i * matrix.row_stride + start_;
        if (used_ == width_ && skipped_ < 0) return numbers;
        for (Index j = 0; j < width_; ++j) copy[j] = j < used_ && j != skipped_ ? numbers[j] : 0;
        return copy;
    }

  private:
    static constexpr Index PIECES = 6;

    Index bytes() const {
        const Index numbers = (2 * blocks_ + 1) * STRIP_COLUMNS + blocks_;
        return numbers * Index(sizeof(double)) + 2 * blocks_ * Index(sizeof(std::int32_t));
    }

    void sort_blocks() {  // by insertion: blocks of one degree stay in order
        for (Index b = 0; b < blocks_; ++b) {
            Index place = b;
            for (; place > 0 && degrees_[place - 1] > pairs_.degrees[b]; --place) {
                order_[place] = order_[place - 1];
                degrees_[place] = degrees_[place - 1];
            }
            order_[place] = std::int32_t(b);
            degrees_[place] = pairs_.degrees[b];
        }
    }

    void load_strip() {
        const Index rest = pairs_.dot.columns - start_;
        used_ = rest < STRIP_COLUMNS ? rest : STRIP_COLUMNS;
        width_ = (used_ + COLUMNS_AT_ONCE - 1) / COLUMNS_AT_ONCE * COLUMNS_AT_ONCE;
        skipped_ = -1;
        for (Index j = 0; j < width_; ++j) {
            counted_[j] = j < used_ ? 1 : 0;
            for (Index b = 0; b < blocks_; ++b) {
                const double weight = j < used_ ? pairs_.right[(start_ + j) * blocks_ + order_[b]] : 0;
                right_[b * STRIP_COLUMNS + j] = weight;
                squared_right_[b * STRIP_COLUMNS + j] = weight * weight;
            }
        }
    }

    void load_row(Index i) {
        for (Index b = 0; b < blocks_; ++b) left_[b] = pairs_.left[i * blocks_ + order_[b]];
        if (!pairs_.skip_diagonal) return;
        if (skipped_ >= 0) counted_[skipped_] = 1;
        skipped_ = i >= start_ && i - start_ < used_ ? i - start_ : -1;
        if (skipped_ >= 0) counted_[skipped_] = 0;
    }

    const PairBlock& pairs_;
    const Index blocks_;
    Scratch scratch_;
    Index start_ = 0, used_ = 0, width_ = 0, skipped_ = -1;
    double *right_, *squared_right_, *counted_, *left_;
    std::int32_t *order_, *degrees_;
};

inline Pairs* take_zeros(Scratch& scratch, Index count) {
    Pairs* const vectors = scratch.take<Pairs>(count);
    for (Index i = 0; i < count; ++i) vectors[i] = Pairs{};
    return vectors;
}

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
