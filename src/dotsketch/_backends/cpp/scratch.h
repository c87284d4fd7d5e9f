// One aligned allocation per call, handed out in pieces.
#pragma once

#include "lanes.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

// Pieces are staggered by a few cache lines: several large buffers that start at the same offset of a 4 KB page
// compete for the same cache sets, which costs up to 60 %.
class Scratch {
  public:
    explicit Scratch(Index bytes, Index pieces)
        : memory_(static_cast<char*>(allocate_scratch(std::size_t(bytes + pieces * SLACK)))), next_(memory_) {}
    ~Scratch() { free_scratch(memory_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    template <class Element>
    Element* take(Index count) {
        char* piece = next_;
        const Index bytes = count * Index(sizeof(Element));
        const Index lines = (bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES + STAGGER_LINES;
        next_ += lines * CACHE_LINE_BYTES;
        return reinterpret_cast<Element*>(piece);
    }

  private:
    static constexpr Index STAGGER_LINES = 5;
    static constexpr Index SLACK = (STAGGER_LINES + 1) * CACHE_LINE_BYTES;
    char* memory_;
    char* next_;
};

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
