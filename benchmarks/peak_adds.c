/* The greatest rate of additions: independent sums of vectors that never leave the registers. */

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

/* The constraint that keeps a value in a vector register. */
#if defined(__x86_64__)
#define IN_REGISTER "+x"
#else
#define IN_REGISTER "+w"
#endif

typedef float vector __attribute__((vector_size(VECTOR_BYTES)));

enum { LANES = VECTOR_BYTES / 4, SUMS = 12 };

/* Separate variables, since an array would be kept in memory; the statement after each addition
   stops the compiler from joining the additions of several rounds. */
#define EACH(DO) DO(a) DO(b) DO(c) DO(d) DO(e) DO(f) DO(g) DO(h) DO(i) DO(j) DO(k) DO(l)
#define START(sum) vector sum = {0};
#define ADD(sum) sum += steps; __asm__ volatile("" : IN_REGISTER(sum));
#define COLLECT(sum) total += sum;

/* Does `rounds` rounds of SUMS vector additions; returns the number of additions of floats. */
double peak_adds(long rounds, float step, float *out) {
    vector steps = {0}, total = {0};
    EACH(START)
    steps += step;
    for (long round = 0; round < rounds; round++) {
        EACH(ADD)
    }
    EACH(COLLECT)
    for (int lane = 0; lane < LANES; lane++) out[lane] = total[lane];
    return (double)rounds * SUMS * LANES;
}
