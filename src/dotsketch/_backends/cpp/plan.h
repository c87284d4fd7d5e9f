// Weights that are laid out once, for any number of calls.
#pragma once

#include <new>

#include "scratch.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

template <class Plan, class Weights>
void* make_plan(const Weights& weights) {
    void* const memory = allocate_scratch(sizeof(Plan));
    try {
        return new (memory) Plan(weights);
    } catch (...) {
        free_scratch(memory);
        throw;
    }
}

template <class Plan>
void release_plan(void* plan) {
    static_cast<Plan*>(plan)->~Plan();
    free_scratch(plan);
}

template <class T, class Plan>
void apply_plan(const void* plan, const Input<T>& X, const Output<T>& out, const Scaling<T>& scaling) {
    static_cast<const Plan*>(plan)->apply(X, out, scaling);
}

// A Plan is made of Weights and has `apply(X, out, scaling) const`.
template <class T, class Weights, class Plan>
constexpr PreparedKernel<T, Weights> prepared_kernel = {make_plan<Plan, Weights>, apply_plan<T, Plan>,
                                                        release_plan<Plan>};

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
