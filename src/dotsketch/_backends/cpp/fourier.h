// The discrete Fourier transform of a tile, in place, for lengths whose prime factors are at most 127.
//
// A transform of length N evaluates a polynomial at the N-th roots of unity by splitting the modulus x^N - 1:
//
//     C[x] / (x^(r m) - b^r)  ->  C[x] / (x^m - b w^k),  k = 0, ..., r - 1,  w = exp(2 pi i / r):
//     block k of m coefficients receives  sum_j (b^j a_j) w^(j k),  where a_j is the j-th block of the input.
//
// A pass does this for all moduli of one length. The factors b^j are the same for all columns of a block, and the
// outputs stay where the splitting leaves them: products of spectra do not care for the order, and the inverse undoes
// the passes last to first. A real polynomial splits off real x^m - 1 and complex x^m - w^k, one of each conjugate
// pair; real coefficients modulo x^(2 m) + 1 *are* complex ones modulo x^m - i, the first half their real and the
// second half their imaginary parts. So the N real vectors of a tile become the N real numbers of half a spectrum
// without a separate step for symmetry. Everywhere a complex block is [m real parts, m imaginary parts].
// A prime radix r costs r^2 operations: for larger ones other algorithms would be better.
#pragma once

#include "hadamard.h"
#include "scratch.h"
#include "tile.h"
#include "waves.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

constexpr int MAX_RADIX = 127;

template <class T>
struct FourierPass {
    int radix;  // 2, 4 (complex passes only) or an odd prime
    bool is_real;
    Index base;         // where the first block stands
    Index span;         // m: coefficients of the blocks after the pass
    Index blocks;       // blocks before the pass, side by side
    const T* twiddles;  // (blocks, radix - 1, 2): b^1, ..., b^(radix - 1)
};

// A radix that the compiler knows, or (RADIX == 0) one that it does not, with its roots of unity w^0, ..., w^(r - 1).
template <class T, int RADIX>
struct Roots {
    static constexpr int CAPACITY = RADIX ? RADIX : MAX_RADIX;
    const int runtime_radix;
    T cosine[CAPACITY], sine[CAPACITY];

    Roots(int radix_, const T* roots, Index length) : runtime_radix(radix_) {
        for (int q = 0; q < radix(); ++q) {
            cosine[q] = roots[2 * (q * (length / radix()))];
            sine[q] = roots[2 * (q * (length / radix())) + 1];
        }
    }
    DOTSKETCH_INLINE int radix() const { return RADIX ? RADIX : runtime_radix; }
};

// (even, odd) with even = first + sum_j sums[j] cos(2 pi j k / r), odd = sum_j differences[j] sin(2 pi j k / r), where
// j = 1, ..., (r - 1) / 2: terms j and r - j of a transform belong together.
template <class T, int RADIX, class V = Vector<T>>
DOTSKETCH_INLINE void even_and_odd(const Roots<T, RADIX>& roots, int k, V first, const V* sums, const V* differences,
                                   V& even, V& odd) {
    const int radix = roots.radix();
    even = first;
    odd = V{};
    int q = 0;
    DOTSKETCH_UNROLL for (int j = 1; j <= radix / 2; ++j) {
        q = q + k < radix ? q + k : q + k - radix;  // j k modulo r
        even += sums[j] * roots.cosine[q];
        odd += differences[j] * roots.sine[q];
    }
}

// (re, im) becomes sum_j (re_j + i im_j) w^(j k); exchange the arguments for the conjugate of w.
template <class T, int RADIX, class V = Vector<T>>
DOTSKETCH_INLINE void small_transform(const Roots<T, RADIX>& roots, V* re, V* im) {
    if constexpr (RADIX == 2) {
        const V a = re[0], b = im[0];
        re[0] = a + re[1];
        im[0] = b + im[1];
        re[1] = a - re[1];
        im[1] = b - im[1];
    } else if constexpr (RADIX == 4) {
        const V a = re[0] + re[2], b = re[0] - re[2], c = re[1] + re[3], d = re[1] - re[3];
        const V e = im[0] + im[2], f = im[0] - im[2], g = im[1] + im[3], h = im[1] - im[3];
        re[0] = a + c;
        re[1] = b - h;
        re[2] = a - c;
        re[3] = b + h;
        im[0] = e + g;
        im[1] = f + d;
        im[2] = e - g;
        im[3] = f - d;
    } else {
        const int radix = roots.radix();
        const V first_re = re[0], first_im = im[0];
        constexpr int HALF = Roots<T, RADIX>::CAPACITY / 2 + 1;
        V re_sums[HALF], re_differences[HALF], im_sums[HALF], im_differences[HALF];
        DOTSKETCH_UNROLL for (int j = 1; j <= radix / 2; ++j) {
            re_sums[j] = re[j] + re[radix - j];
            im_sums[j] = im[j] + im[radix - j];
            re_differences[j] = re[j] - re[radix - j];
            im_differences[j] = im[j] - im[radix - j];
            re[0] += re_sums[j];
            im[0] += im_sums[j];
        }
        DOTSKETCH_UNROLL for (int k = 1; k <= radix / 2; ++k) {
            V re_even, re_odd, im_even, im_odd;
            even_and_odd(roots, k, first_re, re_sums, re_differences, re_even, re_odd);
            even_and_odd(roots, k, first_im, im_sums, im_differences, im_even, im_odd);
            re[k] = re_even - im_odd;
            im[k] = im_even + re_odd;
            re[radix - k] = re_even + im_odd;
            im[radix - k] = im_even - re_odd;
        }
    }
}

// `SPAN` is the span if the compiler knows it, otherwise 0.
template <class T, int RADIX, Index SPAN, bool INVERSE>
void complex_pass(const Roots<T, RADIX>& roots, const FourierPass<T>& pass, Vector<T>* tile) {
    using V = Vector<T>;
    const int radix = roots.radix();
    const Index span = SPAN ? SPAN : pass.span;
    const T* twiddles = pass.twiddles;
    V* block = tile + pass.base;
    V* const end = block + pass.blocks * 2 * radix * span;
    for (; block < end; block += 2 * radix * span, twiddles += 2 * (radix - 1)) {
        for (V* at = block; at < block + span; ++at) {
            V re[Roots<T, RADIX>::CAPACITY], im[Roots<T, RADIX>::CAPACITY];
            if constexpr (INVERSE) {
                re[0] = at[0];
                im[0] = at[span];
                DOTSKETCH_UNROLL for (int k = 1; k < radix; ++k) {
                    re[k] = at[2 * k * span];
                    im[k] = at[(2 * k + 1) * span];
                }
                small_transform(roots, im, re);
                at[0] = re[0];
                at[radix * span] = im[0];
                DOTSKETCH_UNROLL for (int j = 1; j < radix; ++j) {
                    const T cosine = twiddles[2 * j - 2], sine = twiddles[2 * j - 1];
                    at[j * span] = re[j] * cosine + im[j] * sine;
                    at[(radix + j) * span] = im[j] * cosine - re[j] * sine;
                }
            } else {
                re[0] = at[0];
                im[0] = at[radix * span];
                DOTSKETCH_UNROLL for (int j = 1; j < radix; ++j) {
                    const V a = at[j * span], b = at[(radix + j) * span];
                    const T cosine = twiddles[2 * j - 2], sine = twiddles[2 * j - 1];
                    re[j] = a * cosine - b * sine;
                    im[j] = a * sine + b * cosine;
                }
                small_transform(roots, re, im);
                DOTSKETCH_UNROLL for (int k = 0; k < radix; ++k) {
                    at[2 * k * span] = re[k];
                    at[(2 * k + 1) * span] = im[k];
                }
            }
        }
    }
}

// Modulus x^(r span) - 1 with real coefficients, at the beginning of the tile.
template <class T, int RADIX, bool INVERSE>
void real_pass(const Roots<T, RADIX>& roots, const FourierPass<T>& pass, Vector<T>* tile) {
    using V = Vector<T>;
    const int radix = roots.radix();
    const Index span = pass.span;
    // The inverse of a complex block of length span / 2 lacks a factor of two.
    const T fold = INVERSE && span > 1 ? T(2) : T(1);
    for (V* at = tile; at < tile + span; ++at) {
        const V first = at[0];
        if constexpr (RADIX == 2) {
            const V second = at[span] * fold;
            at[0] = first + second;
            at[span] = first - second;
        } else {
            constexpr int HALF = Roots<T, RADIX>::CAPACITY / 2 + 1;
            V sums[HALF], differences[HALF], total = first;
            DOTSKETCH_UNROLL for (int j = 1; j <= radix / 2; ++j) {
                const V a = at[(INVERSE ? 2 * j - 1 : j) * span], b = at[(INVERSE ? 2 * j : radix - j) * span];
                sums[j] = INVERSE ? a + a : a + b;  // the real parts twice, for a pair of conjugates
                differences[j] = INVERSE ? b + b : a - b;
                total += sums[j];
            }
            at[0] = total;
            DOTSKETCH_UNROLL for (int k = 1; k <= radix / 2; ++k) {
                V even, odd;
                even_and_odd(roots, k, first, sums, differences, even, odd);
                at[(INVERSE ? k : 2 * k - 1) * span] = INVERSE ? even + odd : even;
                at[(INVERSE ? radix - k : 2 * k) * span] = INVERSE ? even - odd : odd;
            }
        }
    }
}

template <class T, int RADIX, bool INVERSE>
void run_pass(const FourierPass<T>& pass, const T* roots_of_length, Index length, Vector<T>* tile) {
    const Roots<T, RADIX> roots(pass.radix, roots_of_length, length);
    if constexpr (RADIX != 4)
        if (pass.is_real) return real_pass<T, RADIX, INVERSE>(roots, pass, tile);
    if (pass.span == 1)
        complex_pass<T, RADIX, 1, INVERSE>(roots, pass, tile);
    else
        complex_pass<T, RADIX, 0, INVERSE>(roots, pass, tile);
}

template <class T, bool INVERSE>
void run_pass(const FourierPass<T>& pass, const T* roots, Index length, Vector<T>* tile) {
    switch (pass.radix) {
        case 2: return run_pass<T, 2, INVERSE>(pass, roots, length, tile);
        case 3: return run_pass<T, 3, INVERSE>(pass, roots, length, tile);
        case 4: return run_pass<T, 4, INVERSE>(pass, roots, length, tile);
        case 5: return run_pass<T, 5, INVERSE>(pass, roots, length, tile);
        default: return run_pass<T, 0, INVERSE>(pass, roots, length, tile);
    }
}

// The passes for one length, and their constants. PLANES is 1 for real and 2 for complex coefficients.
template <class T, int PLANES>
class Fourier {
  public:
    static constexpr Index PIECES = 4;

    static Index bytes(Index length) {
        return MAX_PASSES * Index(sizeof(FourierPass<T>)) + length * Index(4 * sizeof(T) + sizeof(std::int32_t));
    }

    Fourier(Scratch& scratch, Index length) : length_(length) {
        passes_ = scratch.take<FourierPass<T>>(MAX_PASSES);
        roots_ = scratch.take<T>(2 * length);
        next_twiddle_ = scratch.take<T>(2 * length);
        exponents_ = scratch.take<std::int32_t>(length);
        const WaveScale<double> one(1.0);
        for (Index q = 0; 2 * q <= length; ++q) {
            // 4 q / length quarter turns, by our own functions: those of the system differ in their last digits
            const Index turns = (8 * q + length) / (2 * length);
            WideVector<double> cosine, sine;
            waves_of<double>(WideVector<double>{} + double(4 * q - turns * length) / double(length), one, cosine, sine);
            const T c = T(cosine[0]), s = T(sine[0]);
            const T re = turns == 0 ? c : turns == 1 ? -s : -c, im = turns == 0 ? s : turns == 1 ? c : -s;
            const Index conjugate = q ? length - q : 0;
            roots_[2 * conjugate] = roots_[2 * q] = re;
            roots_[2 * conjugate + 1] = -im;
            roots_[2 * q + 1] = im;
        }
        if constexpr (PLANES == 2) {
            exponents_[0] = 0;
            plan_complex(0, length, 1);
        } else {
            plan_real();
        }
    }

    void forward(Vector<T>* tile) const {
        for (Index i = 0; i < count_; ++i) run_pass<T, false>(passes_[i], roots_, length_, tile);
    }

    // `length` times the inverse of `forward`.
    void inverse(Vector<T>* tile) const {
        for (Index i = count_; i-- > 0;) run_pass<T, true>(passes_[i], roots_, length_, tile);
    }

    // How many real numbers stand before the complex ones (re, im, re, im, ...) of a spectrum.
    Index real_values() const { return PLANES == 2 ? 0 : 2 - length_ % 2; }

  private:
    // At most 20 real passes (the length is at most 2^20), and at most 14 complex ones after each of them: all but
    // one of these divide the length by 3 or more.
    static constexpr Index MAX_PASSES = 320;

    static int odd_radix(Index length) {
        for (int prime = 3; prime <= MAX_RADIX; prime += 2)
            if (length % prime == 0) return prime;
        return 1;
    }

    void plan_real() {
        for (Index length = length_; length > 1;) {
            const int odd = odd_radix(length), radix = odd > 1 ? odd : 2;
            const Index span = length / radix;
            passes_[count_++] = {radix, true, 0, span, 1, nullptr};
            for (int k = 1; k <= radix / 2; ++k) exponents_[k - 1] = std::int32_t(k * (length_ / length));
            if (radix == 2)
                plan_complex(span, span / 2, 1);
            else
                plan_complex(span, span, radix / 2);
            length = span;
        }
    }

    // Blocks side by side from `base` on, number n with the modulus x^length - exp(2 pi i exponents[n] length / N).
    void plan_complex(Index base, Index length, Index blocks) {
        while (length > 1) {
            const int odd = odd_radix(length), radix = odd > 1 ? odd : log2_of(length) % 2 ? 2 : 4;
            const Index span = length / radix;
            passes_[count_++] = {radix, false, base, span, blocks, next_twiddle_};
            for (Index block = 0; block < blocks; ++block)
                for (int j = 1; j < radix; ++j) {
                    const Index root = j * (exponents_[block] * span % length_) % length_;
                    *next_twiddle_++ = roots_[2 * root];
                    *next_twiddle_++ = roots_[2 * root + 1];
                }
            for (Index block = blocks; block-- > 0;) {
                const Index exponent = exponents_[block];
                for (int k = 0; k < radix; ++k)
                    exponents_[block * radix + k] = std::int32_t((exponent + k * (length_ / length)) % length_);
            }
            blocks *= radix;
            length = span;
        }
    }

    FourierPass<T>* passes_;
    T* roots_;  // (length, 2): exp(2 pi i q / length)
    T* next_twiddle_;
    std::int32_t* exponents_;
    Index length_, count_ = 0;
};

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
