// Python interface: checks every argument, then calls the selected kernel without the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace dotsketch {
namespace {

using InputArray = nb::ndarray<nb::ro, nb::device::cpu>;
using OutputArray = nb::ndarray<nb::device::cpu>;
using OptionalInput = std::optional<InputArray>;
using OptionalOutput = std::optional<OutputArray>;

constexpr Index MAX_DIMENSION = Index(1) << 20;
constexpr Index MAX_PRIME = 127;                    // of the columns of tensor_sketch
constexpr Index MAX_BLOCKS = 128, MAX_DEGREE = 64;  // of pair_sums

const KernelTable* kernels = nullptr;  // set once, at import

template <class T>
const TypedKernels<T>& typed();
template <>
const TypedKernels<float>& typed() { return kernels->single_precision; }
template <>
const TypedKernels<double>& typed() { return kernels->double_precision; }

[[noreturn]] void value_error(const std::string& message) { throw nb::value_error(message.c_str()); }
[[noreturn]] void type_error(const std::string& message) { throw nb::type_error(message.c_str()); }

template <class Array>
std::string shape_text(const Array& array) {
    std::string text = "(";
    for (std::size_t i = 0; i < array.ndim(); ++i) text += (i ? ", " : "") + std::to_string(array.shape(i));
    return text + ")";
}

template <class Array>
void require_dimensions(const Array& array, std::size_t ndim, const char* name) {
    if (array.ndim() != ndim)
        value_error(std::string(name) + " must have " + std::to_string(ndim) + " axes; its shape is " +
                    shape_text(array) + ".");
}

template <class T, class Array>
void require_type(const Array& array, const char* name, const char* type) {
    if (array.dtype() != nb::dtype<T>()) type_error(std::string(name) + " must be of type " + type + ".");
    if (reinterpret_cast<std::uintptr_t>(array.data()) % alignof(T))
        value_error(std::string(name) + " is not aligned to its elements; pass a copy.");
}

template <class T>
constexpr const char* TYPE_NAME = sizeof(T) == 4 ? "float32, as X" : "float64, as X";

bool is_power_of_two(Index d) { return d > 0 && (d & (d - 1)) == 0; }

void require_power_of_two(Index d, const char* name) {
    if (!is_power_of_two(d) || d > MAX_DIMENSION)
        value_error(std::string(name) + " must be a power of two up to 2^20, not " + std::to_string(d) + ".");
}

template <class T>
Input<T> as_input(const InputArray& X, const char* name = "X", const char* type = TYPE_NAME<T>) {
    require_type<T>(X, name, type);
    require_dimensions(X, 2, name);
    if (X.shape(0) > 0 && X.shape(1) > 1 && X.stride(1) != 1)  // empty arrays have any strides
        value_error(std::string("The rows of ") + name + " must be contiguous; pass numpy.ascontiguousarray(" + name +
                    ").");
    return {static_cast<const T*>(X.data()), Index(X.shape(0)), Index(X.shape(1)), Index(X.stride(0))};
}

// Whether a row of X and a row of an output may share memory. Matrices side by side in the rows of one array do not.
template <class T>
bool may_overlap(const Input<T>& X, const T* to, Index rows, Index columns, Index row_stride, Index column_stride) {
    if (X.rows == 0 || X.columns == 0 || columns == 0) return false;
    const auto least = [](Index extent) { return extent < 0 ? extent : 0; };
    const auto most = [](Index extent) { return extent > 0 ? extent : 0; };
    const Index row_extent = (rows - 1) * row_stride, column_extent = (columns - 1) * column_stride;
    const auto address = [](const T* place) { return reinterpret_cast<std::uintptr_t>(place); };
    const std::uintptr_t x_first = address(X.data + least((X.rows - 1) * X.row_stride));
    const std::uintptr_t x_end = address(X.data + most((X.rows - 1) * X.row_stride) + X.columns);
    const std::uintptr_t first = address(to + least(row_extent) + least(column_extent));
    const std::uintptr_t end = address(to + most(row_extent) + most(column_extent) + 1);
    if (x_end <= first || end <= x_first) return false;
    if (rows == 1 || row_stride != X.row_stride || row_stride <= 0 || column_stride < 1) return true;
    Index offset = (to - X.data) % row_stride;
    if (offset < 0) offset += row_stride;
    return offset < X.columns || offset + column_extent >= row_stride;
}

template <class T>
void require_apart(const Input<T>& X, const Output<T>& out) {
    if (may_overlap(X, out.re, X.rows, out.columns, out.re_row_stride, out.re_column_stride) ||
        (out.im && may_overlap(X, out.im, X.rows, out.columns, out.im_row_stride, out.im_column_stride)))
        value_error("X and the output share memory; give an output of its own.");
}

template <class T>
Output<T> as_output(const Input<T>& X, const OutputArray& re, const OptionalOutput& im = std::nullopt,
                    bool may_be_input = false) {
    require_type<T>(re, "The output", TYPE_NAME<T>);
    require_dimensions(re, 2, "The output");
    if (Index(re.shape(0)) != X.rows)
        value_error("The output has " + std::to_string(re.shape(0)) + " rows, X has " + std::to_string(X.rows) + ".");
    Output<T> out = {static_cast<T*>(re.data()), Index(re.stride(0)), Index(re.stride(1)), nullptr, 0, 0,
                     Index(re.shape(1))};
    if (im) {
        require_type<T>(*im, "out_im", TYPE_NAME<T>);
        if (im->ndim() != 2 || im->shape(0) != re.shape(0) || im->shape(1) != re.shape(1))
            value_error("out_re and out_im must have the same shape; they are " + shape_text(re) + " and " +
                        shape_text(*im) + ".");
        out.im = static_cast<T*>(im->data());
        out.im_row_stride = im->stride(0);
        out.im_column_stride = im->stride(1);
    }
    const bool is_input = out.re == X.data && out.re_row_stride == X.row_stride && out.re_column_stride == 1;
    if (!(may_be_input && is_input)) require_apart(X, out);
    return out;
}

template <class T>
Scaling<T> as_scaling(const Input<T>& X, double scale, const OptionalInput& row_scale) {
    Scaling<T> scaling = {T(scale), nullptr, 0};
    if (row_scale) {
        require_type<T>(*row_scale, "row_scale", TYPE_NAME<T>);
        if (row_scale->ndim() != 1 || Index(row_scale->shape(0)) != X.rows)
            value_error("row_scale must have shape (" + std::to_string(X.rows) + ",), one factor for each row of X; "
                        "its shape is " + shape_text(*row_scale) + ".");
        scaling.row_scale = static_cast<const T*>(row_scale->data());
        scaling.row_scale_stride = row_scale->stride(0);
    }
    return scaling;
}

// A contiguous array of the given number of axes.
template <class T, class Array>
auto as_contiguous(const Array& array, std::size_t ndim, const char* name, const char* type) {
    require_type<T>(array, name, type);
    require_dimensions(array, ndim, name);
    Index expected = 1;
    for (std::size_t i = ndim; i-- > 0;) {
        if (array.size() > 0 && array.shape(i) > 1 && array.stride(i) != expected)
            value_error(std::string(name) + " must be C-contiguous; pass numpy.ascontiguousarray(...).");
        expected *= Index(array.shape(i));
    }
    using Element = std::conditional_t<std::is_same_v<Array, OutputArray>, T, const T>;
    return static_cast<Element*>(array.data());
}

// Weights are copied before they are checked: another thread that changes them meanwhile changes nothing.
template <class T>
std::vector<T> copied(const InputArray& array, std::size_t ndim, const char* name, const char* type) {
    const T* const from = as_contiguous<T>(array, ndim, name, type);
    return std::vector<T>(from, from + array.size());
}

// Turns are quarter turns: 0..3, and only 0 and 2 (the signs 1 and -1) where the field is real.
std::vector<std::int8_t> as_turns(const InputArray& array, std::size_t ndim, bool is_complex) {
    const std::vector<std::int8_t> turns = copied<std::int8_t>(array, ndim, "turns", "int8");
    int seen = 0;
    for (const std::int8_t turn : turns) seen |= turn;
    if (seen & ~3) value_error("turns must be 0, 1, 2 or 3 (the weights are i**turns).");
    if (!is_complex && seen & 1)
        value_error("turns of a real sketch must be 0 or 2 (the weights 1 and -1); pass out_im for complex weights.");
    return turns;
}

std::vector<std::int32_t> as_permutations(const InputArray& array) {
    const std::vector<std::int32_t> places = copied<std::int32_t>(array, 3, "places", "int32");
    const Index dimension = Index(array.shape(2));
    std::vector<Index> seen_in(std::size_t(dimension), -1);
    for (Index i = 0; i < Index(places.size()); ++i) {
        const Index place = places[std::size_t(i)], permutation = i / dimension;
        if (place < 0 || place >= dimension || seen_in[std::size_t(place)] == permutation)
            value_error("Each places[j, b] must be a permutation of 0, ..., " + std::to_string(dimension - 1) + ".");
        seen_in[std::size_t(place)] = permutation;
    }
    return places;
}

std::vector<std::int32_t> as_buckets(const InputArray& array, std::size_t ndim, Index columns) {
    const std::vector<std::int32_t> buckets = copied<std::int32_t>(array, ndim, "buckets", "int32");
    for (const std::int32_t bucket : buckets)
        if (bucket < 0 || bucket >= columns)
            value_error("buckets must lie in 0, ..., " + std::to_string(columns - 1) + " (the columns of the output).");
    return buckets;
}

void require_columns(Index columns, Index d, const char* what) {
    if (columns < 1 || columns > d)
        value_error("X has " + std::to_string(columns) + " columns; " + what + " are for 1 to " + std::to_string(d) +
                    ".");
}

template <class T>
double largest_entry(const InputArray& X_array) {
    const Input<T> X = as_input<T>(X_array);
    nb::gil_scoped_release release;
    return typed<T>().largest_entry(X);
}

template <class T>
void fwht(const InputArray& X_array, const OutputArray& out_array) {
    const Input<T> X = as_input<T>(X_array);
    const Output<T> out = as_output<T>(X, out_array, std::nullopt, true);
    require_power_of_two(X.columns, "The number of columns");
    if (out.columns != X.columns)
        value_error("X and out must have the same shape; they are " + shape_text(X_array) + " and " +
                    shape_text(out_array) + ".");
    nb::gil_scoped_release release;
    typed<T>().fwht(X, out);
}

// The weights of a sketch, checked and laid out, as a function of X. Nothing of it changes: threads may share it.
class PreparedWeights {
  public:
    virtual ~PreparedWeights() = default;
    virtual void apply(const InputArray& X, double scale, const OutputArray& out_re, const OptionalOutput& out_im,
                       const OptionalInput& row_scale) const = 0;
};

// What X and the output of prepared weights must look like.
struct Shape {
    Index least_inputs, most_inputs, columns;
    bool is_complex;
};

template <class T, class Weights>
class TypedWeights final : public PreparedWeights {
  public:
    TypedWeights(const PreparedKernel<T, Weights>& kernel, const Weights& weights, const Shape& shape)
        : kernel_(kernel), shape_(shape), plan_(kernel.prepare(weights)) {}
    ~TypedWeights() override { kernel_.release(plan_); }
    TypedWeights(const TypedWeights&) = delete;
    TypedWeights& operator=(const TypedWeights&) = delete;

    void apply(const InputArray& X_array, double scale, const OutputArray& out_re, const OptionalOutput& out_im,
               const OptionalInput& row_scale) const override {
        const Input<T> X =
            as_input<T>(X_array, "X", sizeof(T) == 4 ? "float32, as these weights" : "float64, as these weights");
        const Output<T> out = as_output<T>(X, out_re, out_im);
        const Scaling<T> scaling = as_scaling<T>(X, scale, row_scale);
        if (X.columns < shape_.least_inputs || X.columns > shape_.most_inputs)
            value_error("X has " + std::to_string(X.columns) + " columns; these weights are for " +
                        std::to_string(shape_.least_inputs) + " to " + std::to_string(shape_.most_inputs) + ".");
        if (out.columns != shape_.columns || out_im.has_value() != shape_.is_complex)
            value_error(std::string("The output of these weights is ") + (shape_.is_complex ? "complex" : "real") +
                        " and has " + std::to_string(shape_.columns) + " columns, not " + std::to_string(out.columns) +
                        ".");
        nb::gil_scoped_release release;
        kernel_.apply(plan_, X, out, scaling);
    }

  private:
    const PreparedKernel<T, Weights>& kernel_;
    const Shape shape_;
    void* const plan_;
};

void require_degree(Index degree, const char* name) {
    if (degree < 1) value_error(std::string(name) + " must have at least one degree (its first axis is empty).");
}

template <class T>
PreparedWeights* prepare_tensor_srht(const InputArray& turns_array, const InputArray& places_array, Index columns,
                                     bool is_complex) {
    const std::vector<std::int8_t> turns = as_turns(turns_array, 3, is_complex);
    const std::vector<std::int32_t> places = as_permutations(places_array);
    if (shape_text(turns_array) != shape_text(places_array))
        value_error("turns and places must have the same shape; they are " + shape_text(turns_array) + " and " +
                    shape_text(places_array) + ".");
    const SrhtWeights weights = {turns.data(), places.data(), Index(turns_array.shape(0)), Index(turns_array.shape(1)),
                                 Index(turns_array.shape(2)), columns};
    require_degree(weights.degree, "turns");
    require_power_of_two(weights.dimension, "The last axis of turns");
    if (columns < 0 || columns > weights.blocks * weights.dimension)
        value_error("The output has " + std::to_string(columns) + " columns; " + std::to_string(weights.blocks) +
                    " blocks of " + std::to_string(weights.dimension) + " give fewer. Sample more blocks.");
    return new TypedWeights<T, SrhtWeights>(typed<T>().tensor_srht[is_complex], weights,
                                            {1, weights.dimension, columns, is_complex});
}

template <class T>
PreparedWeights* prepare_sign_projection(const InputArray& turns_array, bool is_complex) {
    const std::vector<std::int8_t> turns = as_turns(turns_array, 3, is_complex);
    const SignWeights weights = {turns.data(), Index(turns_array.shape(0)), Index(turns_array.shape(2)),
                                 Index(turns_array.shape(1))};
    require_degree(weights.degree, "turns");
    if (weights.coordinates < 1) value_error("turns must be for at least one column of X (its last axis is empty).");
    return new TypedWeights<T, SignWeights>(typed<T>().sign_projection[is_complex], weights,
                                            {weights.coordinates, weights.coordinates, weights.columns, is_complex});
}

bool has_small_factors(Index n) {
    if (n < 1 || n > MAX_DIMENSION) return false;
    for (Index prime = 2; prime <= MAX_PRIME; ++prime)
        while (n % prime == 0) n /= prime;
    return n == 1;
}

template <class T>
PreparedWeights* prepare_tensor_sketch(const InputArray& buckets_array, const InputArray& turns_array, Index columns,
                                       bool is_complex) {
    const std::vector<std::int8_t> turns = as_turns(turns_array, 2, is_complex);
    if (shape_text(buckets_array) != shape_text(turns_array))
        value_error("buckets and turns must have the same shape (degree, columns of X); their shapes are " +
                    shape_text(buckets_array) + " and " + shape_text(turns_array) + ".");
    require_degree(Index(turns_array.shape(0)), "buckets");
    if (!has_small_factors(columns))
        value_error("The output must have 1 to 2^20 columns, a number without prime factors above " +
                    std::to_string(MAX_PRIME) + "; it has " + std::to_string(columns) + ".");
    const std::vector<std::int32_t> buckets = as_buckets(buckets_array, 2, columns);
    const HashWeights weights = {buckets.data(), turns.data(), Index(turns_array.shape(0)),
                                 Index(turns_array.shape(1)), columns};
    return new TypedWeights<T, HashWeights>(typed<T>().tensor_sketch[is_complex], weights,
                                            {weights.coordinates, weights.coordinates, columns, is_complex});
}

template <class T>
void count_sketch(const InputArray& X_array, const InputArray& buckets_array, const InputArray& turns_array,
                  const OutputArray& out_re, const OptionalOutput& out_im) {
    const Input<T> X = as_input<T>(X_array);
    const Output<T> out = as_output<T>(X, out_re, out_im);
    if (out.columns >= Index(1) << 30) value_error("The output has too many columns.");
    const std::vector<std::int32_t> buckets = as_buckets(buckets_array, 1, out.columns);
    const std::vector<std::int8_t> turns = as_turns(turns_array, 1, out_im.has_value());
    if (Index(buckets.size()) != X.columns || Index(turns.size()) != X.columns)
        value_error("buckets and turns must have shape (" + std::to_string(X.columns) +
                    ",), one for each column of X.");
    nb::gil_scoped_release release;
    typed<T>().count_sketch({X, out, buckets.data(), turns.data()});
}

template <class T>
void sorf(const InputArray& X_array, const InputArray& signs, const OutputArray& out) {
    const Input<T> X = as_input<T>(X_array);
    SorfArguments<T> arguments = {X, as_output<T>(X, out), as_contiguous<std::int8_t>(signs, 3, "signs", "int8"),
                                  Index(signs.shape(0)), Index(signs.shape(2))};
    if (signs.shape(1) != 3)
        value_error("signs must have shape (blocks, 3, d); its shape is " + shape_text(signs) + ".");
    require_power_of_two(arguments.dimension, "The last axis of signs");
    require_columns(X.columns, arguments.dimension, "these signs");
    if (arguments.out.columns > arguments.blocks * arguments.dimension)
        value_error("The output has " + std::to_string(arguments.out.columns) + " columns; " +
                    std::to_string(arguments.blocks) + " blocks of " + std::to_string(arguments.dimension) +
                    " give fewer. Sample more blocks.");
    for (std::size_t i = 0; i < signs.size(); ++i)
        if (arguments.signs[i] != 1 && arguments.signs[i] != -1) value_error("signs must be 1 or -1.");
    nb::gil_scoped_release release;
    typed<T>().sorf(arguments);
}

template <class T>
void waves(const InputArray& X_array, double scale, const OutputArray& out_cos, const OptionalOutput& out_sin,
           const OptionalInput& frequencies, const OptionalInput& phases) {
    const Input<T> X = as_input<T>(X_array);
    WavesArguments<T> arguments = {X, as_output<T>(X, out_cos, out_sin), T(scale), nullptr, nullptr};
    const Index columns = arguments.out.columns;
    const Index blocks = (columns + WAVE_BLOCK - 1) / WAVE_BLOCK;
    if (frequencies) {
        arguments.frequencies = as_contiguous<T>(*frequencies, 3, "frequencies", TYPE_NAME<T>);
        if (Index(frequencies->shape(0)) != blocks || Index(frequencies->shape(1)) != X.columns ||
            Index(frequencies->shape(2)) != WAVE_BLOCK)
            value_error("frequencies must have shape (" + std::to_string(blocks) + ", " + std::to_string(X.columns) +
                        ", " + std::to_string(WAVE_BLOCK) + "); its shape is " + shape_text(*frequencies) + ".");
    } else if (X.columns != columns) {
        value_error("X and out must have the same shape without frequencies; they are " + shape_text(X_array) +
                    " and " + shape_text(out_cos) + ".");
    }
    if (phases) {
        arguments.phases = as_contiguous<T>(*phases, 2, "phases", TYPE_NAME<T>);
        if (Index(phases->shape(0)) != blocks || Index(phases->shape(1)) != WAVE_BLOCK)
            value_error("phases must have shape (" + std::to_string(blocks) + ", " + std::to_string(WAVE_BLOCK) +
                        "); its shape is " + shape_text(*phases) + ".");
    }
    nb::gil_scoped_release release;
    typed<T>().waves(arguments);
}

// A contiguous float64 array of a given shape.
template <class Array>
auto as_doubles(const Array& array, std::initializer_list<Index> shape, const char* name) {
    auto* data = as_contiguous<double>(array, shape.size(), name, "float64");
    bool agrees = true;
    std::string expected;
    std::size_t axis = 0;
    for (const Index length : shape) {
        agrees = agrees && Index(array.shape(axis++)) == length;
        expected += (expected.empty() ? "(" : ", ") + std::to_string(length);
    }
    if (!agrees)
        value_error(std::string(name) + " must have shape " + expected + (shape.size() == 1 ? ",)" : ")") +
                    "; its shape is " + shape_text(array) + ".");
    return data;
}

PairBlock as_pairs(const InputArray& dot, const InputArray& left, const InputArray& right, const InputArray& degrees,
                   bool skip_diagonal) {
    PairBlock pairs = {};
    pairs.dot = as_input<double>(dot, "dot", "float64");
    pairs.degrees = as_contiguous<std::int32_t>(degrees, 1, "degrees", "int32");
    const Index B = pairs.blocks = Index(degrees.shape(0));
    if (B < 1 || B > MAX_BLOCKS)
        value_error("degrees must have 1 to " + std::to_string(MAX_BLOCKS) + " blocks, not " + std::to_string(B) + ".");
    for (Index b = 0; b < B; ++b)
        if (pairs.degrees[b] < 0 || pairs.degrees[b] > MAX_DEGREE)
            value_error("degrees must lie in 0, ..., " + std::to_string(MAX_DEGREE) + ".");
    pairs.left = as_doubles(left, {pairs.dot.rows, B}, "left");
    pairs.right = as_doubles(right, {pairs.dot.columns, B}, "right");
    pairs.skip_diagonal = skip_diagonal;
    return pairs;
}

// A matrix with one number for every pair.
Input<double> as_pair_values(const InputArray& values, const InputArray& dot, const char* name) {
    const Input<double> input = as_input<double>(values, name, "float64");
    if (shape_text(values) != shape_text(dot))
        value_error(std::string("dot and ") + name + " must have the same shape; they are " + shape_text(dot) +
                    " and " + shape_text(values) + ".");
    return input;
}

void pair_gram(const InputArray& dot, const InputArray& values, const InputArray& left, const InputArray& right,
               const InputArray& degrees, bool skip_diagonal, const OutputArray& gram, const OutputArray& tail,
               const OutputArray& squares_out) {
    PairGramArguments arguments = {};
    arguments.pairs = as_pairs(dot, left, right, degrees, skip_diagonal);
    arguments.values = as_pair_values(values, dot, "values");
    const Index B = arguments.pairs.blocks;
    arguments.gram = as_doubles(gram, {B, B}, "gram");
    arguments.tail = as_doubles(tail, {B}, "tail");
    arguments.squares_out = as_doubles(squares_out, {2}, "squares_out");
    nb::gil_scoped_release release;
    kernels->pair_gram(arguments);
}

void pair_terms(const InputArray& dot, const InputArray& squares, const InputArray& left, const InputArray& right,
                const InputArray& degrees, const InputArray& left_lengths, const InputArray& right_lengths,
                const InputArray& straight, const OptionalInput& crossed, double shared, Index order,
                bool skip_diagonal, const OutputArray& terms) {
    PairTermsArguments arguments = {};
    arguments.pairs = as_pairs(dot, left, right, degrees, skip_diagonal);
    arguments.squares = as_pair_values(squares, dot, "squares");
    arguments.left_lengths = as_doubles(left_lengths, {arguments.pairs.dot.rows}, "left_lengths");
    arguments.right_lengths = as_doubles(right_lengths, {arguments.pairs.dot.columns}, "right_lengths");
    arguments.excesses = straight.ndim() == 2 && straight.shape(0) == 2 ? 2 : 1;
    arguments.straight = as_doubles(straight, {arguments.excesses, 4}, "straight");
    if (crossed) arguments.crossed = as_doubles(*crossed, {arguments.excesses, 4}, "crossed");
    if (order < 0 || order > MAX_DEGREE)
        value_error("order must lie in 0, ..., " + std::to_string(MAX_DEGREE) + ", not " + std::to_string(order) + ".");
    arguments.shared = shared;
    arguments.order = order;
    arguments.terms = as_doubles(terms, {arguments.pairs.blocks, crossed ? 2 + 2 * order : 2}, "terms");
    nb::gil_scoped_release release;
    kernels->pair_terms(arguments);
}

void add_adjoint(const InputArray& Z_array, const InputArray& R_array, const OutputArray& total) {
    AdjointArguments arguments = {};
    const Input<float> Z = arguments.Z = as_input<float>(Z_array, "Z", "float32");
    const Input<float> R = arguments.R = as_input<float>(R_array, "R", "float32");
    if (R.rows != Z.rows)
        value_error("Z and R must have the same number of rows; they have " + std::to_string(Z.rows) + " and " +
                    std::to_string(R.rows) + ".");
    require_type<float>(total, "total", "float32");
    require_dimensions(total, 2, "total");
    if (Index(total.shape(0)) != R.columns || Index(total.shape(1)) != Z.columns)
        value_error("total must have shape (" + std::to_string(R.columns) + ", " + std::to_string(Z.columns) +
                    "); its shape is " + shape_text(total) + ".");
    arguments.total = static_cast<float*>(total.data());
    arguments.total_stride = R.columns > 1 ? Index(total.stride(0)) : Z.columns;
    if (total.size() > 0 && ((Z.columns > 1 && total.stride(1) != 1) || arguments.total_stride < Z.columns))
        value_error("The rows of total must be contiguous and apart; pass numpy.ascontiguousarray(total).");
    for (const Input<float>& given : {Z, R})
        if (may_overlap(given, static_cast<const float*>(arguments.total), R.columns, Z.columns,
                        arguments.total_stride, 1))
            value_error("total shares memory with Z or R; give an array of its own.");
    nb::gil_scoped_release release;
    kernels->add_adjoint(arguments);
}

// Calls `function` with a null pointer of X's element type, which tells the type.
template <class Function>
void for_type_of(const InputArray& X, Function function) {
    if (X.dtype() == nb::dtype<float>())
        function(static_cast<float*>(nullptr));
    else if (X.dtype() == nb::dtype<double>())
        function(static_cast<double*>(nullptr));
    else
        type_error("X must be of type float32 or float64.");
}

#define DOTSKETCH_ELEMENT_OF(pointer) std::remove_pointer_t<decltype(pointer)>

}  // namespace

NB_MODULE(_kernels, module) {
    kernels = &select_kernels();
    nb::set_leak_warnings(false);  // estimators that live until the interpreter ends have prepared weights
    module.attr("ISA") = kernels->isa;

    module.def(
        "largest_entry",
        [](const InputArray& X) {
            double largest = 0;
            for_type_of(X, [&](auto* type) { largest = largest_entry<DOTSKETCH_ELEMENT_OF(type)>(X); });
            return largest;
        },
        "X"_a.noconvert(), "max |x| over all entries; NaN if one of them is.");
    module.def(
        "fwht",
        [](const InputArray& X, const OutputArray& out) {
            for_type_of(X, [&](auto* type) { fwht<DOTSKETCH_ELEMENT_OF(type)>(X, out); });
        },
        "X"_a.noconvert(), "out"_a.noconvert(),
        "out = X H, the unnormalised Walsh-Hadamard transform of every row in natural order; out may be X.");
    nb::class_<PreparedWeights>(module, "PreparedWeights",
                                "Weights that are checked and laid out: a function of X, which threads may share.")
        .def(
            "__call__",
            [](const PreparedWeights& weights, const InputArray& X, double scale, const OutputArray& out_re,
               const OptionalOutput& out_im,
               const OptionalInput& row_scale) { weights.apply(X, scale, out_re, out_im, row_scale); },
            "X"_a.noconvert(), "scale"_a, "out_re"_a.noconvert(), "out_im"_a.noconvert().none() = nb::none(),
            "row_scale"_a.noconvert().none() = nb::none(), "out = scale * row_scale * features of X.");
    module.def(
        "prepare_tensor_srht",
        [](const InputArray& turns, const InputArray& places, Index columns, bool is_complex, bool is_single) {
            return is_single ? prepare_tensor_srht<float>(turns, places, columns, is_complex)
                             : prepare_tensor_srht<double>(turns, places, columns, is_complex);
        },
        "turns"_a.noconvert(), "places"_a.noconvert(), "columns"_a, "is_complex"_a, "is_single"_a,
        nb::rv_policy::take_ownership,
        "Column l of block b: scale * row_scale * prod_j (H (i**turns[j, b] * x))[places[j, b, l]].");
    module.def(
        "prepare_sign_projection",
        [](const InputArray& turns, bool is_complex, bool is_single) {
            return is_single ? prepare_sign_projection<float>(turns, is_complex)
                             : prepare_sign_projection<double>(turns, is_complex);
        },
        "turns"_a.noconvert(), "is_complex"_a, "is_single"_a, nb::rv_policy::take_ownership,
        "Column l: scale * row_scale * prod_j sum_k i**turns[j, l, k] x_k.");
    module.def(
        "prepare_tensor_sketch",
        [](const InputArray& buckets, const InputArray& turns, Index columns, bool is_complex, bool is_single) {
            return is_single ? prepare_tensor_sketch<float>(buckets, turns, columns, is_complex)
                             : prepare_tensor_sketch<double>(buckets, turns, columns, is_complex);
        },
        "buckets"_a.noconvert(), "turns"_a.noconvert(), "columns"_a, "is_complex"_a, "is_single"_a,
        nb::rv_policy::take_ownership,
        "scale * row_scale * the cyclic convolution over j of the count sketches of X by buckets[j] and turns[j].");
    module.def(
        "count_sketch",
        [](const InputArray& X, const InputArray& buckets, const InputArray& turns, const OutputArray& out_re,
           const OptionalOutput& out_im) {
            for_type_of(X, [&](auto* type) {
                count_sketch<DOTSKETCH_ELEMENT_OF(type)>(X, buckets, turns, out_re, out_im);
            });
        },
        "X"_a.noconvert(), "buckets"_a.noconvert(), "turns"_a.noconvert(), "out_re"_a.noconvert(),
        "out_im"_a.noconvert().none() = nb::none(),
        "out[:, b] = sum over the k with buckets[k] == b of i**turns[k] * X[:, k].");
    module.def(
        "has_small_factors", &has_small_factors, "n"_a,
        "Whether prepare_tensor_sketch takes n columns: n is at most 2^20 and has no prime factor above 127.");
    module.def(
        "sorf",
        [](const InputArray& X, const InputArray& signs, const OutputArray& out) {
            for_type_of(X, [&](auto* type) { sorf<DOTSKETCH_ELEMENT_OF(type)>(X, signs, out); });
        },
        "X"_a.noconvert(), "signs"_a.noconvert(), "out"_a.noconvert(),
        "Block b: H D3 H D2 H D1 x with the diagonals signs[b, 0], signs[b, 1], signs[b, 2] = D1, D2, D3.");
    module.def(
        "waves",
        [](const InputArray& X, double scale, const OutputArray& out_cos, const OptionalOutput& out_sin,
           const OptionalInput& frequencies, const OptionalInput& phases) {
            for_type_of(X, [&](auto* type) {
                waves<DOTSKETCH_ELEMENT_OF(type)>(X, scale, out_cos, out_sin, frequencies, phases);
            });
        },
        "X"_a.noconvert(), "scale"_a, "out_cos"_a.noconvert(), "out_sin"_a.noconvert().none() = nb::none(),
        "frequencies"_a.noconvert().none() = nb::none(), "phases"_a.noconvert().none() = nb::none(),
        "scale * cos and scale * sin of the angles phases + X frequencies (X itself without frequencies), counted in "
        "quarter turns. Frequencies (blocks, d, 16) and phases (blocks, 16) stand in blocks of 16 columns, the last one padded.");
    module.def(
        "pair_gram", &pair_gram, "dot"_a.noconvert(), "values"_a.noconvert(), "left"_a.noconvert(),
        "right"_a.noconvert(), "degrees"_a.noconvert(), "skip_diagonal"_a, "gram"_a.noconvert(), "tail"_a.noconvert(),
        "squares_out"_a.noconvert(),
        "Adds sums over the pairs (i, j), without i == j if skip_diagonal, of t[b] = left[i, b] right[j, b] "
        "dot[i, j]**degrees[b] and rest = values[i, j] - sum_b t[b]:\n\n"
        "gram[b, c] += t[b] t[c];  tail[b] += t[b] rest;  squares_out += (rest**2, values**2).");
    module.def(
        "pair_terms", &pair_terms, "dot"_a.noconvert(), "squares"_a.noconvert(), "left"_a.noconvert(),
        "right"_a.noconvert(), "degrees"_a.noconvert(), "left_lengths"_a.noconvert(), "right_lengths"_a.noconvert(),
        "straight"_a.noconvert(), "crossed"_a.noconvert().none(), "shared"_a, "order"_a, "skip_diagonal"_a,
        "terms"_a.noconvert(),
        "Adds sums over the pairs (i, j), without i == j if skip_diagonal, of w times powers of s = dot**2 plus x or y, "
        "where n = degrees[b] and w = (left[i, b] right[j, b])**2. Without crossed:\n\n"
        "terms[b, 0] += w ((s + x)**n - s**n),  terms[b, 1] += w ((s - shared x)**n - s**n);\n\n"
        "with it, for k = 1 ... order and the binomial c of n over k:\n\n"
        "terms[b, 0] += w ((s + x + y)**n - s**n),  terms[b, 1] += w ((s + x)**n + (s + y)**n - 2 s**n),\n"
        "terms[b, 1 + k] += w c (-1)**k (y**k (s + x)**(n - k) + x**k (s + y)**(n - k)),\n"
        "terms[b, 1 + order + k] += w c (-x - y)**k s**(n - k).\n\n"
        "With N = left_lengths[i] right_lengths[j], each row (f, g, h, clip) of straight gives x = "
        "f max(N - squares, 0) + g (s - squares) + h squares, at least 0 if clip, and the row of crossed gives y; "
        "terms are means over the rows.");
    module.def("add_adjoint", &add_adjoint, "Z"_a.noconvert(), "R"_a.noconvert(), "total"_a.noconvert(),
               "total += R^T Z, in single precision, for few columns of R.");
}

}  // namespace dotsketch
