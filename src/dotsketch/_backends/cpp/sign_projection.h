// Products of projections on vectors of {1, -1} or {1, i, -1, -i}, by lookup ("four Russians").
//
// Coordinates are taken in groups of five. A group has 32 signed sums, which a table holds (one addition each);
// a projection then costs one lookup and one addition per group instead of five multiply-adds, and a table serves
// the projections of all degrees. A table entry holds two tiles, so that finding it is paid once for both.
//
// Complex weights: (1 + i) i^t has both parts +-1, so a complex projection is two real ones ("planes"), turned back
// by (1 - i) / 2.
#pragma once

#include "plan.h"
#include "tile.h"

namespace dotsketch {
namespace DOTSKETCH_ISA {

constexpr Index TILES = 2;                       // tiles a table entry
constexpr Index GROUP = 5;                       // coordinates a table
constexpr Index TABLE_SIZE = Index(1) << GROUP;  // entries a table
constexpr Index TABLES_PER_PASS = 8;             // tables in use at a time: 16 KB, half of the first-level cache
constexpr Index ITEMS_PER_CHUNK = 2048;          // sums in use at a time: 128 KB of the second-level cache

template <class T>
struct Wide {
    Vector<T> tile[TILES];
};

DOTSKETCH_INLINE std::uint64_t load_eight_bytes(const void* from) {  // the first byte is the lowest
    std::uint64_t bytes;
    std::memcpy(&bytes, from, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    return bytes;
}

// Columns are processed in chunks. An item is one (degree, column, plane) of a chunk and has one running sum; the
// codes of a chunk are ordered by pass, item, table, as they are read.
struct ProjectionLayout {
    Index degree, planes, columns, coordinates, passes, chunk_columns;

    ProjectionLayout(Index degree_, Index planes_, Index columns_, Index coordinates_)
        : degree(degree_), planes(planes_), columns(columns_), coordinates(coordinates_) {
        constexpr Index COORDINATES_PER_PASS = GROUP * TABLES_PER_PASS;
        passes = (coordinates + COORDINATES_PER_PASS - 1) / COORDINATES_PER_PASS;
        chunk_columns = ITEMS_PER_CHUNK / (degree * planes);
        if (chunk_columns < 1) chunk_columns = 1;
        if (chunk_columns > columns) chunk_columns = columns;
    }
    Index columns_of_chunk(Index first) const {
        return columns - first < chunk_columns ? columns - first : chunk_columns;
    }
    Index items(Index chunk_columns_) const { return degree * chunk_columns_ * planes; }
    Index padded_coordinates() const { return passes * TABLES_PER_PASS * GROUP; }
    Index code_bytes() const { return items(columns) * passes * TABLES_PER_PASS; }
};

// The signs of a group of turns: bit k is set where coordinate k is negative. Of the planes of complex weights the real
// part of (1 + i) i^t is negative for t = 1, 2 and the imaginary part for t = 2, 3, as are real weights (t = 0, 2).
DOTSKETCH_INLINE std::uint8_t pack_group(const std::int8_t* turns, bool is_real_part) {
    constexpr std::uint64_t ONES = 0x0101010101010101u;
    const std::uint64_t bytes = load_eight_bytes(turns) + (is_real_part ? ONES : 0);
    const std::uint64_t bits = (bytes >> 1) & (ONES >> (64 - 8 * GROUP));
    return std::uint8_t((bits * 0x0102040810204080u) >> 56);  // gathers the low bits of the bytes
}

// `row` is room for padded_coordinates() + 8 turns.
inline void pack_signs(const ProjectionLayout& layout, const std::int8_t* turns, std::int8_t* row,
                       std::uint8_t* codes) {
    std::memset(row, 0, std::size_t(layout.padded_coordinates() + 8));
    for (Index first = 0; first < layout.columns; first += layout.chunk_columns) {
        const Index columns = layout.columns_of_chunk(first);
        const Index pass_bytes = layout.items(columns) * TABLES_PER_PASS;
        for (Index j = 0; j < layout.degree; ++j)
            for (Index column = 0; column < columns; ++column) {
                std::memcpy(row, turns + (j * layout.columns + first + column) * layout.coordinates,
                            std::size_t(layout.coordinates));
                for (Index plane = 0; plane < layout.planes; ++plane) {
                    const bool is_real_part = layout.planes == 2 && plane == 0;
                    const Index item = (j * columns + column) * layout.planes + plane;
                    for (Index pass = 0; pass < layout.passes; ++pass) {
                        std::uint8_t* const to = codes + pass * pass_bytes + item * TABLES_PER_PASS;
                        const std::int8_t* const from = row + pass * TABLES_PER_PASS * GROUP;
                        for (Index t = 0; t < TABLES_PER_PASS; ++t) to[t] = pack_group(from + t * GROUP, is_real_part);
                    }
                }
            }
        codes += layout.passes * pass_bytes;
    }
}

// table[code] = sum_k (bit k of code ? -1 : 1) x_k, in the order of k.
template <class T>
DOTSKETCH_INLINE void build_table(const Wide<T>* x, Wide<T>* table) {
    for (Index s = 0; s < TILES; ++s) {
        table[0].tile[s] = x[0].tile[s];
        table[1].tile[s] = -x[0].tile[s];
    }
    for (Index k = 1; k < GROUP; ++k) {
        const Index size = Index(1) << k;
        for (Index code = 0; code < size; ++code)
            for (Index s = 0; s < TILES; ++s) {
                const Vector<T> sum = table[code].tile[s];
                table[code].tile[s] = sum + x[k].tile[s];
                table[size + code].tile[s] = sum - x[k].tile[s];
            }
    }
}

// Adds to the sums of all items what the tables of one pass give; returns the end of the codes that it has read.
template <class T>
DOTSKETCH_INLINE const std::uint8_t* add_lookups(const Wide<T>* tables, const std::uint8_t* codes, Index items,
                                                 Wide<T>* sums) {
    constexpr int SHIFT = __builtin_ctz(sizeof(Wide<T>));  // from numbers of entries to bytes
    constexpr std::uint64_t MASK = std::uint64_t(TABLE_SIZE - 1) << SHIFT;
    static_assert(TABLES_PER_PASS == 8 && SHIFT < 8, "the codes of an item are the bytes of one word");
    const char* const table_bytes = reinterpret_cast<const char*>(tables);
    for (Index item = 0; item < items; ++item, codes += 8) {
        const std::uint64_t word = load_eight_bytes(codes);
        Wide<T> sum = sums[item];
        DOTSKETCH_UNROLL for (int t = 0; t < 8; ++t) {
            const std::uint64_t offset = (t == 0 ? word << SHIFT : word >> (8 * t - SHIFT)) & MASK;
            const char* const table = table_bytes + t * TABLE_SIZE * Index(sizeof(Wide<T>));
            const Wide<T>& entry = *reinterpret_cast<const Wide<T>*>(table + offset);
            for (Index s = 0; s < TILES; ++s) sum.tile[s] += entry.tile[s];
        }
        sums[item] = sum;
    }
    return codes;
}

// product[column] = prod_j of the projections of a chunk, for one of the tiles.
template <int PLANES, class T>
DOTSKETCH_INLINE void multiply_degrees(const Wide<T>* sums, Index tile, Index degree, Index columns,
                                       Vector<T>* product) {
    using V = Vector<T>;
    for (Index j = 0; j < degree; ++j, sums += columns * PLANES)
        for (Index column = 0; column < columns; ++column) {
            V* const to = product + column * PLANES;
            if constexpr (PLANES == 1) {
                const V factor = sums[column].tile[tile];
                to[0] = j == 0 ? factor : to[0] * factor;
            } else {
                const V turned_re = sums[2 * column].tile[tile], turned_im = sums[2 * column + 1].tile[tile];
                const V re = (turned_re + turned_im) * T(0.5), im = (turned_im - turned_re) * T(0.5);
                if (j == 0) {
                    to[0] = re;
                    to[1] = im;
                } else {
                    const V product_re = to[0], product_im = to[1];
                    to[0] = product_re * re - product_im * im;
                    to[1] = product_re * im + product_im * re;
                }
            }
        }
}

template <class T, int PLANES>
struct SignPlan {
    const ProjectionLayout layout;
    Scratch memory;
    std::uint8_t* const codes;

    explicit SignPlan(const SignWeights& weights)
        : layout(weights.degree, PLANES, weights.columns, weights.coordinates),
          memory(layout.code_bytes(), 1),
          codes(memory.take<std::uint8_t>(layout.code_bytes())) {
        Scratch scratch(layout.padded_coordinates() + 8, 1);
        pack_signs(layout, weights.turns, scratch.take<std::int8_t>(layout.padded_coordinates() + 8), codes);
    }

    void apply(const Input<T>& X, const Output<T>& out, const Scaling<T>& scaling) const {
        using V = Vector<T>;
        constexpr Index ROWS = TILES * LANES<T>;
        const Index coordinates = layout.padded_coordinates();
        const Index max_items = layout.items(layout.chunk_columns);

        const Index wides = coordinates + TABLES_PER_PASS * TABLE_SIZE + max_items;
        Scratch scratch((TILES * wides + X.columns + PLANES * layout.chunk_columns) * VECTOR_BYTES, 5);
        Wide<T>* const tables = scratch.take<Wide<T>>(TABLES_PER_PASS * TABLE_SIZE);
        Wide<T>* const x = scratch.take<Wide<T>>(coordinates);
        Wide<T>* const sums = scratch.take<Wide<T>>(max_items);
        V* const tile = scratch.take<V>(X.columns);
        V* const product = scratch.take<V>(PLANES * layout.chunk_columns);
        for (Index k = 0; k < coordinates; ++k) x[k] = Wide<T>{};

        for (Index first_row = 0; first_row < X.rows; first_row += ROWS) {
            const auto rows_of = [=](Index s) DOTSKETCH_INLINE_LAMBDA {
                const Index left = X.rows - first_row - s * LANES<T>;
                return left < 0 ? 0 : left < LANES<T> ? left : LANES<T>;
            };
            for (Index s = 0; s < TILES; ++s) {
                load_tile(X, first_row + s * LANES<T>, rows_of(s), tile);
                for (Index k = 0; k < X.columns; ++k) x[k].tile[s] = tile[k];
            }
            const std::uint8_t* code = codes;
            for (Index first = 0; first < out.columns; first += layout.chunk_columns) {
                const Index columns = layout.columns_of_chunk(first);
                const Index items = layout.items(columns);
                for (Index item = 0; item < items; ++item) sums[item] = Wide<T>{};
                for (Index pass = 0; pass < layout.passes; ++pass) {
                    for (Index t = 0; t < TABLES_PER_PASS; ++t)
                        build_table(x + (pass * TABLES_PER_PASS + t) * GROUP, tables + t * TABLE_SIZE);
                    code = add_lookups(tables, code, items, sums);
                }
                for (Index s = 0; s < TILES && rows_of(s) > 0; ++s) {
                    const Index row = first_row + s * LANES<T>;
                    multiply_degrees<PLANES>(sums, s, layout.degree, columns, product);
                    store_tile<PLANES>(product, out, row, rows_of(s), first, columns,
                                       tile_factor(scaling, row, rows_of(s)));
                }
            }
        }
    }
};

}  // namespace DOTSKETCH_ISA
}  // namespace dotsketch
