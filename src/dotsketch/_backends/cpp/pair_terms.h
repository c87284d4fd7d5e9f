// Sums over pairs of the terms from which the variance of a sketch is put together for any number of projections.
//
// With s = dot^2, n the degree of a block, w = (left right)^2 and x, y linear in what is known of a pair:
// - differences (y is not given): (s + x)^n - s^n and (s - shared x)^n - s^n;
// - expansions in rho up to an order K: (s + x + y)^n - s^n, then the coefficients of rho^0 ... rho^K in
//   (s + x - rho y)^n + (s + y - rho x)^n - 2 s^n, then those of rho^1 ... rho^K in (s - rho (x + y))^n.
// Differences of powers obey D_{n+1} = a D_n + (a - s) s^n: no cancellation.
#pragma once

#include <initializer_list>

#include "pair_strips.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

constexpr int TERM_VECTORS = 2;  // at once: what 16 registers hold

struct Excess {
    explicit Excess(const double* weights)
        : beta(weights[0]), gamma(weights[1]), squares(weights[2]), bound(weights[3] != 0 ? 0.0 : -__builtin_inf()) {}

    DOTSKETCH_INLINE Pairs operator()(Pairs beta_, Pairs gamma_, Pairs squares_) const {
        return at_least(bound, beta * beta_ + gamma * gamma_ + squares * squares_);
    }

    double beta, gamma, squares, bound;
};

// The columns of one row of a strip, STRIP_COLUMNS numbers each.
struct TermColumns {
    double *s, *x, *y;                     // y is zero for differences
    double *x_power, *y_power, *sum_power;  // x^k, y^k, (x + y)^k
};

class PairTerms {
  public:
    explicit PairTerms(const PairTermsArguments& arguments)
        : arguments_(arguments),
          strips_(arguments.pairs),
          blocks_(strips_.blocks()),
          scratch_(bytes(), PIECES) {
        sums_ = take_zeros(scratch_, terms() * blocks_);
        totals_ = take_zeros(scratch_, terms() * blocks_);
        lengths_ = scratch_.take<double>(STRIP_COLUMNS);
        for (double*& copy : copies_) copy = scratch_.take<double>(STRIP_COLUMNS);
        columns_ = {};
        for (double** numbers : {&columns_.s, &columns_.x, &columns_.y, &columns_.x_power, &columns_.y_power,
                                 &columns_.sum_power})
            *numbers = scratch_.take<double>(STRIP_COLUMNS);
    }

    void run() {
        strips_.for_every_row([&](Index i) {
            if (i == 0) load_lengths();
            for (Index e = 0; e < arguments_.excesses; ++e) {
                const bool crossed = load_columns(i, e);
                if (!arguments_.crossed)
                    arguments_.shared != 0 ? add_differences<true>() : add_differences<false>();
                else
                    crossed ? add_expansions<true>() : add_expansions<false>();
            }
            add_to_totals();
        });
        finish();
    }

  private:
    static constexpr Index PIECES = 11;

    Index terms() const { return arguments_.crossed ? 2 + 2 * arguments_.order : 2; }

    Index bytes() const {
        return 2 * terms() * blocks_ * VECTOR_BYTES + 9 * STRIP_COLUMNS * Index(sizeof(double));
    }

    void load_lengths() {
        for (Index j = 0; j < strips_.width(); ++j)
            lengths_[j] = j < strips_.used() ? arguments_.right_lengths[strips_.start() + j] : 0;
    }

    // s, x and y of row i; returns whether y can be other than zero.
    bool load_columns(Index i, Index e) {
        const Excess straight(arguments_.straight + 4 * e);
        const double none[4] = {};
        const double* const weights = arguments_.crossed ? arguments_.crossed + 4 * e : none;
        const Excess crossed(weights);
        const double* const dots = strips_.numbers_of_row(arguments_.pairs.dot, i, copies_[0]);
        const double* const squares_of = strips_.numbers_of_row(arguments_.squares, i, copies_[1]);
        for (Index column = 0; column < strips_.width(); column += LANES<double>) {
            const Pairs dot = load(dots + column), squares = load(squares_of + column), s = dot * dot;
            const Pairs norms =
                load(strips_.counted() + column) * load(lengths_ + column) * arguments_.left_lengths[i];
            const Pairs beta = at_least(0, norms - squares), gamma = s - squares;
            store(columns_.s + column, s);
            store(columns_.x + column, straight(beta, gamma, squares));
            store(columns_.y + column, crossed(beta, gamma, squares));
        }
        return weights[0] != 0 || weights[1] != 0 || weights[2] != 0;
    }

    // Both differences share the powers x s^n; the second is that of s - shared x, divided by -shared.
    template <bool CORRELATED>
    void add_differences() {
        const std::int32_t* const degrees = strips_.degrees();
        for (Index column = 0; column < strips_.width(); column += TERM_VECTORS * LANES<double>) {
            Pairs s[TERM_VECTORS], power[TERM_VECTORS], single_base[TERM_VECTORS], shared_base[TERM_VECTORS];
            Pairs single[TERM_VECTORS] = {}, shared[TERM_VECTORS] = {};
            DOTSKETCH_UNROLL
            for (int v = 0; v < TERM_VECTORS; ++v) {
                const Index place = column + v * LANES<double>;
                s[v] = load(columns_.s + place);
                power[v] = load(columns_.x + place);
                single_base[v] = s[v] + power[v];
                shared_base[v] = s[v] - arguments_.shared * power[v];
            }
            std::int32_t degree = 0;
            for (Index b = 0; b < blocks_; ++b) {
                for (; degree < degrees[b]; ++degree)
                    DOTSKETCH_UNROLL
                    for (int v = 0; v < TERM_VECTORS; ++v) {
                        single[v] = multiply_add(single_base[v], single[v], power[v]);
                        if constexpr (CORRELATED) shared[v] = multiply_add(shared_base[v], shared[v], power[v]);
                        power[v] *= s[v];
                    }
                add_weighted(0, b, column, single);
                if constexpr (CORRELATED) add_weighted(1, b, column, shared);
            }
        }
    }

    // sums[term, b] += w values
    DOTSKETCH_INLINE void add_weighted(Index term, Index b, Index column, const Pairs (&values)[TERM_VECTORS]) {
        const double* const weights = strips_.squared_right() + b * STRIP_COLUMNS + column;
        Pairs sum = sums_[term * blocks_ + b];
        DOTSKETCH_UNROLL
        for (int v = 0; v < TERM_VECTORS; ++v) sum = multiply_add(load(weights + v * LANES<double>), values[v], sum);
        sums_[term * blocks_ + b] = sum;
    }

    template <bool CROSSED>
    void add_expansions() {
        add_constants<CROSSED>();
        Index first = 0;  // the first block whose degree is at least k
        for (Index k = 1; k <= arguments_.order; ++k) {
            while (first < blocks_ && strips_.degrees()[first] < k) ++first;
            if (first == blocks_) return;
            add_coefficients<CROSSED>(k, first);
        }
    }

    // What does not depend on rho, terms 0 and 1. Without y they are the same.
    template <bool CROSSED>
    void add_constants() {
        const std::int32_t* const degrees = strips_.degrees();
        for (Index column = 0; column < strips_.width(); column += TERM_VECTORS * LANES<double>) {
            Pairs s[TERM_VECTORS], x[TERM_VECTORS], y[TERM_VECTORS];  // x s^n, y s^n
            Pairs x_base[TERM_VECTORS], y_base[TERM_VECTORS], both_base[TERM_VECTORS];
            Pairs x_part[TERM_VECTORS] = {}, y_part[TERM_VECTORS] = {}, both[TERM_VECTORS] = {};
            DOTSKETCH_UNROLL
            for (int v = 0; v < TERM_VECTORS; ++v) {
                const Index place = column + v * LANES<double>;
                s[v] = load(columns_.s + place);
                x[v] = load(columns_.x + place);
                y[v] = load(columns_.y + place);
                x_base[v] = s[v] + x[v];
                y_base[v] = s[v] + y[v];
                both_base[v] = x_base[v] + y[v];
            }
            std::int32_t degree = 0;
            for (Index b = 0; b < blocks_; ++b) {
                for (; degree < degrees[b]; ++degree)
                    DOTSKETCH_UNROLL
                    for (int v = 0; v < TERM_VECTORS; ++v) {
                        x_part[v] = multiply_add(x_base[v], x_part[v], x[v]);
                        if constexpr (CROSSED) {
                            y_part[v] = multiply_add(y_base[v], y_part[v], y[v]);
                            both[v] = multiply_add(both_base[v], both[v], x[v] + y[v]);
                            y[v] *= s[v];
                        }
                        x[v] *= s[v];
                    }
                if constexpr (CROSSED) {
                    add_weighted(0, b, column, both);
                    const Pairs sum[TERM_VECTORS] = {x_part[0] + y_part[0], x_part[1] + y_part[1]};
                    add_weighted(1, b, column, sum);
                } else {
                    add_weighted(0, b, column, x_part);
                    add_weighted(1, b, column, x_part);
                }
            }
        }
    }

    // y^k (s + x)^(n - k) + x^k (s + y)^(n - k) and (x + y)^k s^(n - k); `finish` has their signs and binomials.
    template <bool CROSSED>
    void add_coefficients(Index k, Index first) {
        const std::int32_t* const degrees = strips_.degrees();
        for (Index column = 0; column < strips_.width(); column += TERM_VECTORS * LANES<double>) {
            Pairs s[TERM_VECTORS], x_base[TERM_VECTORS], y_base[TERM_VECTORS];
            Pairs x[TERM_VECTORS], y[TERM_VECTORS], both[TERM_VECTORS];
            DOTSKETCH_UNROLL
            for (int v = 0; v < TERM_VECTORS; ++v) {
                const Index place = column + v * LANES<double>;
                s[v] = load(columns_.s + place);
                x_base[v] = load(columns_.x + place);
                x[v] = k == 1 ? x_base[v] : x_base[v] * load(columns_.x_power + place);
                store(columns_.x_power + place, x[v]);
                if constexpr (CROSSED) {
                    y_base[v] = load(columns_.y + place);
                    const Pairs sum = x_base[v] + y_base[v];
                    y[v] = k == 1 ? y_base[v] : y_base[v] * load(columns_.y_power + place);
                    both[v] = k == 1 ? sum : sum * load(columns_.sum_power + place);
                    store(columns_.y_power + place, y[v]);
                    store(columns_.sum_power + place, both[v]);
                    x_base[v] += s[v];
                    y_base[v] += s[v];
                }
            }
            std::int32_t degree = std::int32_t(k);
            for (Index b = first; b < blocks_; ++b) {
                for (; degree < degrees[b]; ++degree)
                    DOTSKETCH_UNROLL
                    for (int v = 0; v < TERM_VECTORS; ++v) {
                        x[v] *= CROSSED ? y_base[v] : s[v];
                        if constexpr (CROSSED) {
                            y[v] *= x_base[v];
                            both[v] *= s[v];
                        }
                    }
                if constexpr (CROSSED) {
                    const Pairs sum[TERM_VECTORS] = {x[0] + y[0], x[1] + y[1]};
                    add_weighted(1 + k, b, column, sum);
                    add_weighted(1 + arguments_.order + k, b, column, both);
                } else {
                    add_weighted(1 + k, b, column, x);
                    add_weighted(1 + arguments_.order + k, b, column, x);
                }
            }
        }
    }

    void add_to_totals() {
        for (Index term = 0; term < terms(); ++term)
            for (Index b = 0; b < blocks_; ++b) {
                const double weight = strips_.left()[b] * strips_.left()[b];
                Pairs& sum = sums_[term * blocks_ + b];
                totals_[term * blocks_ + b] = multiply_add(broadcast(weight), sum, totals_[term * blocks_ + b]);
                sum = Pairs{};
            }
    }

    void finish() const {
        for (Index b = 0; b < blocks_; ++b) {
            double* const out = arguments_.terms + strips_.block(b) * terms();
            const auto total = [&](Index term) {
                return sum_of_lanes(totals_[term * blocks_ + b]) / double(arguments_.excesses);
            };
            out[0] += total(0);
            if (!arguments_.crossed) {
                out[1] -= arguments_.shared * total(1);
                continue;
            }
            out[1] += total(1);
            const double n = strips_.degrees()[b];
            double factor = 1;  // (-1)^k times the binomial of n over k
            for (Index k = 1; k <= arguments_.order; ++k) {
                factor *= (double(k - 1) - n) / double(k);
                out[1 + k] += factor * total(1 + k);
                out[1 + arguments_.order + k] += factor * total(1 + arguments_.order + k);
            }
        }
    }

    const PairTermsArguments& arguments_;
    PairStrips strips_;
    const Index blocks_;
    Scratch scratch_;
    Pairs *sums_, *totals_;  // (terms, blocks): of one row without its weight, and of all
    double* lengths_;        // (STRIP_COLUMNS,)
    double* copies_[2];
    TermColumns columns_;
};

inline void pair_terms(const PairTermsArguments& arguments) { PairTerms(arguments).run(); }

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
