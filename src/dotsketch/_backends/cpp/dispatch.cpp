// Picks the kernels for this machine; compiled for the baseline.
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>
#include <stdexcept>
#include <string>

#include "kernels.h"

#if defined(DOTSKETCH_HAS_V3) || defined(DOTSKETCH_HAS_V4)
#include <cpuid.h>
#endif

namespace dotsketch {

namespace {

#if defined(DOTSKETCH_HAS_V3) || defined(DOTSKETCH_HAS_V4)

constexpr unsigned bits(std::initializer_list<int> places) {
    unsigned mask = 0;
    for (int place : places) mask |= 1u << place;
    return mask;
}

// All that the levels of x86-64 name, since the compiler may use all of it and a virtual machine can hide any one.
constexpr unsigned V3_LEAF_1 = bits({0, 9, 12, 13, 19, 20, 22, 23, 27, 28, 29});  // SSE3, SSSE3, FMA, CMPXCHG16B,
// SSE4.1, SSE4.2, MOVBE, POPCNT, OSXSAVE, AVX, F16C
constexpr unsigned V3_LEAF_7 = bits({3, 5, 8});             // BMI1, AVX2, BMI2
constexpr unsigned V3_EXTENDED = bits({0, 5});              // LAHF-SAHF, LZCNT
constexpr unsigned V4_LEAF_7 = bits({16, 17, 28, 30, 31});  // AVX-512 F, DQ, CD, BW, VL

// Asked of the CPU: not every compiler's __builtin_cpu_supports knows the levels or all of these names. It does know
// avx2 and avx512f, and says yes only if the operating system keeps the registers.
int level_of_cpu() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & V3_LEAF_1) != V3_LEAF_1) return 1;
    if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || (c & V3_EXTENDED) != V3_EXTENDED) return 1;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & V3_LEAF_7) != V3_LEAF_7) return 1;
    if (!__builtin_cpu_supports("avx2")) return 1;
    return (b & V4_LEAF_7) == V4_LEAF_7 && __builtin_cpu_supports("avx512f") ? 4 : 3;
}

#else

int level_of_cpu() {
    return 1;
}

#endif

bool cpu_runs(const char* isa) {
    const int needed = std::strcmp(isa, "v4") == 0 ? 4 : std::strcmp(isa, "v3") == 0 ? 3 : 1;
    return level_of_cpu() >= needed;
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
