// All kernels for one instruction set. CMake compiles this file once per level, with DOTSKETCH_ISA naming the
// namespace (isa_baseline, isa_v3, isa_v4) and DOTSKETCH_ISA_NAME the level as a string.
#include "count_sketch.h"
#include "largest_entry.h"
#include "pair_gram.h"
#include "pair_terms.h"
#include "row_hadamard.h"
#include "sign_projection.h"
#include "tensor_sketch.h"
#include "tensor_srht.h"
#include "waves.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

template <class T>
constexpr TypedKernels<T> typed_kernels = {largest_entry<T>, fwht<T>,          tensor_srht<T>, sign_projection<T>,
                                           count_sketch<T>,  tensor_sketch<T>, sorf<T>,
                                           waves<T>};

extern const KernelTable kernel_table = {DOTSKETCH_ISA_NAME, typed_kernels<float>, typed_kernels<double>, pair_gram,
                                         pair_terms};

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
