// All kernels for one instruction set. CMake compiles this file once per level, with DOTSKETCH_ISA naming the
// namespace (isa_baseline, isa_v3, isa_v4) and DOTSKETCH_ISA_NAME the level as a string.
#include "adjoint.h"
#include "count_sketch.h"
#include "largest_entry.h"
#include "pair_gram.h"
#include "pair_terms.h"
#include "plan.h"
#include "row_hadamard.h"
#include "sign_projection.h"
#include "tensor_sketch.h"
#include "tensor_srht.h"
#include "waves.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

template <class T>
constexpr TypedKernels<T> typed_kernels = {
    largest_entry<T>,
    fwht<T>,
    count_sketch<T>,
    sorf<T>,
    waves<T>,
    {prepared_kernel<T, SrhtWeights, SrhtPlan<T, 1>>, prepared_kernel<T, SrhtWeights, SrhtPlan<T, 2>>},
    {prepared_kernel<T, SignWeights, SignPlan<T, 1>>, prepared_kernel<T, SignWeights, SignPlan<T, 2>>},
    {prepared_kernel<T, HashWeights, HashPlan<T, 1>>, prepared_kernel<T, HashWeights, HashPlan<T, 2>>},
};

extern const KernelTable kernel_table = {DOTSKETCH_ISA_NAME, typed_kernels<float>, typed_kernels<double>, pair_gram,
                                         pair_terms, add_adjoint};

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
