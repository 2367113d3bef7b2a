#version 460
// Matrix × rows of activations for quantized types, with the float operations of the contract in its order.
//
// One token (ROWS not defined): a block has a panel and a token. Its threads sum the integers of eight units at once, a unit
// and row each, and leave scales and sums in shared memory; sixteen of them apply the fused multiply-adds in order.
// Several (ROWS): a block has a panel and 32 tokens, a thread a row and four tokens, whose chains it keeps.
#define THREADS 128
#include "device.glsl"
#include "types.glsl"
#include "matmul.glsl"

const int UNIT = 352, UNIT_WORDS = UNIT / 4;

bool has(int unit, int s, int groups) { return unit * 8 + s < groups; }
void load_head(uint64_t unit_at, int unit, int row, int groups) {
    UNROLL for (int i = 0; i < HEAD; i++)
        if (COLUMNS == 256 || has(unit, i, groups)) heads[i] = read_head(unit_at, row, i);
}
void load_group(uint64_t unit_at, int row, int s) {
    const uint64_t from = lines_at(unit_at, s);
    UNROLL for (int i = 0; i < LINES; i++) lines[i] = read_line(from, row, i);
}
// The group's sum of products, scaled where halves have scales of their own; `words` are those of its activations.
float group_sum(uint low[4], uint high[4], uint pair, uint64_t x, int word) {
    int sum0 = 0, sum1 = 0;
    UNROLL for (int k = 0; k < 4; k++) {
        sum0 = dot_bytes(low[k], read_word(x, word + k), sum0);
        sum1 = dot_bytes(high[k], read_word(x, word + 4 + k), sum1);
    }
#if SPLIT
    return float_from(join_halves(pair, sum0, sum1));
#else
    return float(sum0 + sum1);
#endif
}
// The minimum's part: the sums of activations, scaled.
float minimum_sum(uint pair, uint64_t x, int unit, int s) {
#if SPLIT_MINIMA
    const uint halves = read_word(x, unit * UNIT_WORDS + 80 + s);
    return float_from(join_halves(pair, low_half(halves), high_half(halves)));
#else
    return read_float(x, unit * UNIT_WORDS + 72 + s);
#endif
}

#ifndef ROWS
const int SLOTS = THREADS / 16, ARRAY = SLOTS * 8 * 16;
shared float products[ARRAY], sums[ARRAY];
#if MINIMA || SPLIT_MINIMA
shared float least[ARRAY], least_sums[ARRAY];
#endif

void main() {
    const int row = tid % 16, slot = tid / 16, token = int(gl_WorkGroupID.y);
    const int groups = int(a.columns) / 32, units = (groups + 7) / 8;
    const PanelPlace place = find_panel(int(gl_WorkGroupID.x));
    const uint64_t panel = place.w + expert_at(token) + uint64_t(place.panel) * uint64_t(int(a.columns) / COLUMNS * BYTES);
    const uint64_t x = row_at(a.x, token / int(a.x_shared_by), int(a.x_stride));
    float acc = 0.0;
    for (int first = 0; first < units; first += SLOTS) {
        const int unit = first + slot;
        barrier();
        if (unit < units) {
            const uint64_t unit_at = row_at(panel, unit, BYTES * (256 / COLUMNS));
            load_head(unit_at, unit, row, groups);
            UNROLL for (int s = 0; s < 8; s++) {
                if (!has(unit, s, groups)) continue;
                load_group(unit_at, row, s);
                uint low[4], high[4];
                UNROLL for (int k = 0; k < 4; k++) quads(k, low[k], high[k]);
                const float dx = read_float(x, unit * UNIT_WORDS + 64 + s);
                const int at = (slot * 8 + s) * 16 + row;
                products[at] = scale(s) * dx;
                sums[at] = group_sum(low, high, scales(s), x, unit * UNIT_WORDS + 8 * s);
#if MINIMA || SPLIT_MINIMA
                least[at] = SPLIT_MINIMA ? minimum(s) * dx : minimum(s);
                least_sums[at] = minimum_sum(minima(s), x, unit, s);
#endif
            }
        }
        barrier();
        if (tid < 16)
            for (int i = 0; i < SLOTS * 8 && first * 8 + i < groups; i++) {
                acc = fused(products[i * 16 + tid], sums[i * 16 + tid], acc);
#if MINIMA || SPLIT_MINIMA
                acc = fused(least[i * 16 + tid], least_sums[i * 16 + tid], acc);
#endif
            }
    }
    const int r = place.panel * 16 + tid;
    if (tid < 16 && r < place.rows) write_float(row_at(place.to, token, 4 * int(a.out_stride)), r, acc);
}
#else
const int TOKENS = 4;

void main() {
    const int row = tid % 16;
    const int token0 = int(gl_WorkGroupID.y) * TOKENS * (THREADS / 16) + tid / 16, step = THREADS / 16;
    const int groups = int(a.columns) / 32, units = (groups + 7) / 8;
    const PanelPlace place = find_panel(int(gl_WorkGroupID.x));
    const uint64_t panel = place.w + uint64_t(place.panel) * uint64_t(int(a.columns) / COLUMNS * BYTES);
    uint64_t x[TOKENS];
    float acc[TOKENS];
    UNROLL for (int t = 0; t < TOKENS; t++) {
        // Past the last token is the last one again.
        const int token = min(token0 + t * step, int(a.tokens) - 1);
        x[t] = row_at(a.x, token / int(a.x_shared_by), int(a.x_stride));
        acc[t] = 0.0;
    }
    for (int unit = 0; unit < units; unit++) {
        const uint64_t unit_at = row_at(panel, unit, BYTES * (256 / COLUMNS));
        load_head(unit_at, unit, row, groups);
        UNROLL for (int s = 0; s < 8; s++) {
            if (!has(unit, s, groups)) continue;
            load_group(unit_at, row, s);
            uint low[4], high[4];
            UNROLL for (int k = 0; k < 4; k++) quads(k, low[k], high[k]);
            const float by = scale(s), least = minimum(s);
            const uint pair = scales(s), least_pair = minima(s);
            UNROLL for (int t = 0; t < TOKENS; t++) {
                const float dx = read_float(x[t], unit * UNIT_WORDS + 64 + s);
                const float sum = group_sum(low, high, pair, x[t], unit * UNIT_WORDS + 8 * s);
                acc[t] = fused(by * dx, sum, acc[t]);
#if MINIMA || SPLIT_MINIMA
                acc[t] = fused(SPLIT_MINIMA ? least * dx : least, minimum_sum(least_pair, x[t], unit, s), acc[t]);
#endif
            }
        }
    }
    const int r = place.panel * 16 + row;
    UNROLL for (int t = 0; t < TOKENS; t++) {
        const int token = token0 + t * step;
        if (token < int(a.tokens) && r < place.rows) write_float(row_at(place.to, token, 4 * int(a.out_stride)), r, acc[t]);
    }
}
#endif
