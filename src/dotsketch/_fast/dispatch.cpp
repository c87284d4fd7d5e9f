// Picks the kernels for this machine; compiled for the baseline.
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include "kernels.h"

namespace dotsketch {

namespace {

// -march=x86-64-v3 and -v4 name more features than these, but every CPU with these has the others.
bool cpu_runs(const char* isa) {
    if (std::strcmp(isa, "baseline") == 0) return true;
#if defined(DOTSKETCH_HAS_V3)
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    if (std::strcmp(isa, "v3") == 0) return v3;
#endif
#if defined(DOTSKETCH_HAS_V4)
    if (std::strcmp(isa, "v4") == 0)
        return v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#endif
    return false;
}

}  // namespace

const KernelTable& select_kernels() {
    static const KernelTable* const tables[] = {  // best first
#if defined(DOTSKETCH_HAS_V4)
        &isa_v4::kernel_table,
#endif
#if defined(DOTSKETCH_HAS_V3)
        &isa_v3::kernel_table,
#endif
        &isa_baseline::kernel_table,
    };
    const char* wanted = std::getenv("DOTSKETCH_ISA");
    for (const KernelTable* table : tables) {
        const bool matches = !wanted || !*wanted || std::strcmp(wanted, table->isa) == 0;
        if (matches && cpu_runs(table->isa)) return *table;
    }
    throw std::runtime_error(std::string("DOTSKETCH_ISA=") + wanted +
                             " is not built in or this CPU lacks it; unset it, or use baseline.");
}

void* allocate_scratch(std::size_t bytes) {
    return ::operator new(bytes, std::align_val_t(64));
}

void free_scratch(void* memory) {
    ::operator delete(memory, std::align_val_t(64));
}

}  // namespace dotsketch
