// The seam between the Python bindings and the kernels.
//
// kernels.cpp is compiled once per instruction set, each time in a namespace of its own, and fills one
// `KernelTable`. Everything in this header is plain data: an inline function here would be emitted by every
// one of these compilations, and the linker could keep the AVX copy for a machine without AVX.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dotsketch {

using Index = std::ptrdiff_t;

// Rows of contiguous elements; strides count elements, not bytes.
template <class T>
struct Input {
    const T* data;
    Index rows;
    Index columns;
    Index row_stride;
};

// A real matrix (im == nullptr) or the real and imaginary parts of a complex one, with any strides.
template <class T>
struct Output {
    T* re;
    Index re_row_stride;
    Index re_column_stride;
    T* im;
    Index im_row_stride;
    Index im_column_stride;
    Index columns;
};

// Features are multiplied by `scale`, and row r also by `row_scale[r]` where row_scale is not null.
template <class T>
struct Scaling {
    T scale;
    const T* row_scale;
    Index row_scale_stride;
};

// Weights of sketches, as they are given. `columns` are those of the output.
struct SrhtWeights {
    const std::int8_t* turns;    // (degree, blocks, dimension): weight i^turns
    const std::int32_t* places;  // (degree, blocks, dimension): feature l reads coordinate places[l]
    Index degree;
    Index blocks;
    Index dimension;  // a power of two, at least the columns of X
    Index columns;
};

struct SignWeights {
    const std::int8_t* turns;  // (degree, columns, coordinates)
    Index degree;
    Index coordinates;
    Index columns;
};

struct HashWeights {
    const std::int32_t* buckets;  // (degree, coordinates)
    const std::int8_t* turns;     // (degree, coordinates)
    Index degree;
    Index coordinates;
    Index columns;  // without prime factors above 127
};

// A kernel whose weights are copied and laid out once: `prepare` makes a plan, `apply` uses it, from any number of
// threads, and `release` ends it.
template <class T, class Weights>
struct PreparedKernel {
    void* (*prepare)(const Weights&);
    void (*apply)(const void* plan, const Input<T>& X, const Output<T>& out, const Scaling<T>& scaling);
    void (*release)(void* plan);
};

template <class T>
struct CountSketchArguments {
    Input<T> X;
    Output<T> out;
    const std::int32_t* buckets;  // (X.columns,)
    const std::int8_t* turns;     // (X.columns,)
};

template <class T>
struct SorfArguments {
    Input<T> X;
    Output<T> out;
    const std::int8_t* signs;  // (blocks, 3, dimension)
    Index blocks;
    Index dimension;
};

// Frequencies stand in blocks of as many columns as the longest vector has lanes.
constexpr Index WAVE_BLOCK = 16;

template <class T>
struct WavesArguments {
    Input<T> X;             // rows; or their angles, if there are no frequencies
    Output<T> out;          // re: cosines, im: sines
    T scale;
    const T* frequencies;   // (blocks, X.columns, WAVE_BLOCK) or null; angles are counted in quarter turns
    const T* phases;        // (blocks, WAVE_BLOCK) or null: added to the angles
};

// Pairs (i, j) of r rows and c columns; what is summed stands at the Python functions `pair_gram` and `pair_terms`.
struct PairBlock {
    Input<double> dot;            // (r, c)
    const double* left;           // (r, blocks)
    const double* right;          // (c, blocks)
    const std::int32_t* degrees;  // (blocks,)
    Index blocks;
    bool skip_diagonal;
};

struct PairGramArguments {
    PairBlock pairs;
    Input<double> values;  // (r, c)
    double* gram;          // (blocks, blocks)
    double* tail;          // (blocks,)
    double* squares_out;   // (2,)
};

struct PairTermsArguments {
    PairBlock pairs;
    Input<double> squares;        // (r, c)
    const double* left_lengths;   // (r,)
    const double* right_lengths;  // (c,)
    const double* straight;       // (excesses, 4)
    const double* crossed;        // the same shape, or null for differences
    Index excesses;               // 1 or 2
    double shared;                // of differences
    Index order;                  // of expansions
    double* terms;                // (blocks, 2), or (blocks, 2 + 2 order) for expansions
};

struct AdjointArguments {
    Input<float> Z;  // (b, D)
    Input<float> R;  // (b, c)
    float* total;    // (c, D), contiguous rows
    Index total_stride;
};

template <class T>
struct TypedKernels {
    double (*largest_entry)(const Input<T>& X);
    void (*fwht)(const Input<T>& X, const Output<T>& out);
    void (*count_sketch)(const CountSketchArguments<T>&);
    void (*sorf)(const SorfArguments<T>&);
    void (*waves)(const WavesArguments<T>&);
    PreparedKernel<T, SrhtWeights> tensor_srht[2];  // real and complex, as the next two
    PreparedKernel<T, SignWeights> sign_projection[2];
    PreparedKernel<T, HashWeights> tensor_sketch[2];
};

struct KernelTable {
    const char* isa;
    TypedKernels<float> single_precision;
    TypedKernels<double> double_precision;
    void (*pair_gram)(const PairGramArguments&);
    void (*pair_terms)(const PairTermsArguments&);
    void (*add_adjoint)(const AdjointArguments&);
};

// One of these exists for every compilation of kernels.cpp.
namespace isa_baseline { extern const KernelTable kernel_table; }
namespace isa_v3 { extern const KernelTable kernel_table; }
namespace isa_v4 { extern const KernelTable kernel_table; }

// The best table for this CPU, or the one that the environment variable DOTSKETCH_ISA names.
const KernelTable& select_kernels();

// 64-byte aligned memory, or std::bad_alloc. Compiled once, for the baseline.
void* allocate_scratch(std::size_t bytes);
void free_scratch(void* memory);

}  // namespace dotsketch
