// The quantized types as panels of 16 rows (crates/kernels/src/panel), byte for byte.
//
// All types are seen as units of 256 columns: one block, or eight blocks of 32. A unit has 8 groups of 32 columns; a group
// has LINES lines of 64 bytes, 4 bytes for each row, and a unit has HEAD words for each row, of which scales are made.
// Whoever asks brings `line(i)` and `head(i)`, which read memory or are registers: indices are constant where the loops
// around them are unrolled.
//
// For a group: acc = fma(scale · dx, Σ, acc), and with minima acc = fma(min, dx · Σx, acc). Where scales belong to 16
// columns, Σ is scale0 · Σ0 + scale1 · Σ1 in integers.
#pragma once
#include "device.cuh"

enum Kind { PLAIN, MINIMA, SPLIT, SPLIT_MINIMA };

DEVICE uint32_t low_nibbles(uint32_t w) { return w & 0x0f0f0f0fu; }
DEVICE uint32_t high_nibbles(uint32_t w) { return w >> 4 & 0x0f0f0f0fu; }
// Takes `n` (in every byte) from bytes of 0 to 127.
DEVICE uint32_t less(uint32_t w, uint32_t n) { return ((w | 0x80808080u) - n) ^ 0x80808080u; }
DEVICE int signed_byte(uint32_t w, int k) { return int(w << (24 - 8 * k)) >> 24; }
DEVICE int pack_pair(int low, int high) { return int(uint32_t(low & 0xffff) | uint32_t(high) << 16); }

// The table's entries for four codes below 16.
DEVICE uint32_t look_up(uint32_t codes, uint32_t t0, uint32_t t1, uint32_t t2, uint32_t t3) {
    uint32_t selector = codes & 0x07070707u;
    selector = (selector | selector >> 4) & 0x00ff00ffu;
    selector = (selector | selector >> 8) & 0xffffu;
    const uint32_t low = permute_bytes(t0, t1, selector), high = permute_bytes(t2, t3, selector);
    const uint32_t mask = (codes >> 3 & 0x01010101u) * 255u;
    return (low & ~mask) | (high & mask);
}
DEVICE uint32_t iq4_values(uint32_t codes) { return look_up(codes, 0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u); }
DEVICE uint32_t e2m1_values(uint32_t codes) { return look_up(codes, 0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu); }

// What reads words of a unit from memory: `row` is a lane.
template <class M> DEVICE uint32_t read_halves(const uint8_t *at, int row, bool second) {
    const uint16_t *halves = reinterpret_cast<const uint16_t *>(at);
    const uint32_t d = M::half(halves + row);
    return second ? d | M::half(halves + 16 + row) << 16 : d;
}
template <class M> DEVICE uint32_t read_line(const uint8_t *at, int row, int line) {
    return M::word(reinterpret_cast<const uint32_t *>(at) + line * 16 + row);
}
struct Streamed {
    static DEVICE_MEMBER uint32_t word(const uint32_t *p) { return stream_word(p); }
    static DEVICE_MEMBER uint32_t half(const uint16_t *p) { return stream_half(p); }
};
struct Plain {
    static DEVICE_MEMBER uint32_t word(const uint32_t *p) { return *p; }
    static DEVICE_MEMBER uint32_t half(const uint16_t *p) { return *p; }
};

// Blocks of 32 columns: HALVES half floats for each row, then lines.
template <int BLOCK_BYTES, int SECOND> struct Small {
    static const int COLUMNS = 32, BYTES = BLOCK_BYTES, HEAD = 8;
    template <class M> static DEVICE_MEMBER uint32_t head(const uint8_t *unit, int row, int i) {
        return read_halves<M>(unit + i * BYTES, row, SECOND);
    }
    static DEVICE_MEMBER const uint8_t *lines(const uint8_t *unit, int s) { return unit + s * BYTES + (SECOND ? 64 : 32); }
    template <class H> static DEVICE_MEMBER float scale(H head, int s) { return half_to_float(head(s) & 0xffff); }
    template <class H> static DEVICE_MEMBER float minimum(H head, int s) { return half_to_float(head(s) >> 16); }
    template <class H> static DEVICE_MEMBER int scales(H, int) { return 0; }
    template <class H> static DEVICE_MEMBER int minima(H, int) { return 0; }
};

struct Q4_0 : Small<288, 0> {
    static const int KIND = PLAIN, LINES = 4;
    template <class L> static DEVICE_MEMBER void quads(L line, int k, uint32_t &a, uint32_t &b) {
        const uint32_t w = line(k);
        a = less(low_nibbles(w), 0x08080808u), b = less(high_nibbles(w), 0x08080808u);
    }
};
struct Q4_1 : Small<320, 1> {
    static const int KIND = MINIMA, LINES = 4;
    template <class L> static DEVICE_MEMBER void quads(L line, int k, uint32_t &a, uint32_t &b) {
        const uint32_t w = line(k);
        a = low_nibbles(w), b = high_nibbles(w);
    }
};
// Nibbles with a fifth bit in the line before them.
template <class L> DEVICE void five_bits(L line, int k, uint32_t &a, uint32_t &b) {
    const uint32_t w = line(1 + k), fifth = line(0);
    a = low_nibbles(w) | (fifth << (4 - k) & 0x10101010u);
    b = high_nibbles(w) | (fifth >> k & 0x10101010u);
}
struct Q5_0 : Small<352, 0> {
    static const int KIND = PLAIN, LINES = 5;
    template <class L> static DEVICE_MEMBER void quads(L line, int k, uint32_t &a, uint32_t &b) {
        five_bits(line, k, a, b);
        a = less(a, 0x10101010u), b = less(b, 0x10101010u);
    }
};
struct Q5_1 : Small<384, 1> {
    static const int KIND = MINIMA, LINES = 5;
    template <class L> static DEVICE_MEMBER void quads(L line, int k, uint32_t &a, uint32_t &b) { five_bits(line, k, a, b); }
};
struct Q8_0 : Small<544, 0> {
    static const int KIND = PLAIN, LINES = 8;
    template <class L> static DEVICE_MEMBER void quads(L line, int k, uint32_t &a, uint32_t &b) { a = line(k), b = line(k + 4); }
};
struct IQ4_NL : Small<288, 0> {
    static const int KIND = PLAIN, LINES = 4;
    template <class L> static DEVICE_MEMBER void quads(L line, int k, uint32_t &a, uint32_t &b) {
        const uint32_t w = line(k);
        a = iq4_values(low_nibbles(w)), b = iq4_values(high_nibbles(w));
    }
};
// The scale is a power of two, in one byte.
struct MXFP4 : Small<272, 0> {
    static const int KIND = PLAIN, LINES = 4;
    template <class M> static DEVICE_MEMBER uint32_t head(const uint8_t *unit, int row, int i) {
        const uint16_t *pairs = reinterpret_cast<const uint16_t *>(unit + i * BYTES);
        return M::half(pairs + row / 2) >> 8 * (row % 2) & 255;
    }
    static DEVICE_MEMBER const uint8_t *lines(const uint8_t *unit, int s) { return unit + s * BYTES + 16; }
    template <class H> static DEVICE_MEMBER float scale(H head, int s) {
        const int e = int(head(s));
        return float_of(uint32_t(max(int(uint32_t(e - 1) << 23), (e + 1) << 21)));
    }
    template <class L> static DEVICE_MEMBER void quads(L line, int k, uint32_t &a, uint32_t &b) {
        const uint32_t w = line(k);
        a = e2m1_values(low_nibbles(w)), b = e2m1_values(high_nibbles(w));
    }
};

// Scales and minima of 6 bits, as in Q4_K and Q5_K: d and dmin, then three lines.
template <int BLOCK_BYTES, int GROUP_LINES> struct SixBitScales {
    static const int COLUMNS = 256, BYTES = BLOCK_BYTES, HEAD = 4, KIND = MINIMA, LINES = GROUP_LINES;
    template <class M> static DEVICE_MEMBER uint32_t head(const uint8_t *unit, int row, int i) {
        return i ? read_line<M>(unit + 64, row, i - 1) : read_halves<M>(unit, row, true);
    }
    static DEVICE_MEMBER const uint8_t *lines(const uint8_t *unit, int s) { return unit + 256 + s * GROUP_LINES * 64; }
    // The six bits of group s, of which the first four groups' are whole in `own`.
    static DEVICE_MEMBER float six_bits(uint32_t own, uint32_t both, int shift, int s) {
        const uint32_t w = s < 4 ? own & 0x3f3f3f3fu : (both >> shift & 0x0f0f0f0fu) | (own >> 2 & 0x30303030u);
        return float(w >> 8 * (s % 4) & 255);
    }
    template <class H> static DEVICE_MEMBER float scale(H head, int s) {
        return half_to_float(head(0) & 0xffff) * six_bits(head(1), head(3), 0, s);
    }
    template <class H> static DEVICE_MEMBER float minimum(H head, int s) {
        return -(half_to_float(head(0) >> 16) * six_bits(head(2), head(3), 4, s));
    }
    template <class H> static DEVICE_MEMBER int scales(H, int) { return 0; }
    template <class H> static DEVICE_MEMBER int minima(H, int) { return 0; }
};
struct Q4_K : SixBitScales<2304, 4> {
    template <class L> static DEVICE_MEMBER void quads(L line, int k, uint32_t &a, uint32_t &b) {
        const uint32_t w = line(k);
        a = low_nibbles(w), b = high_nibbles(w);
    }
};
struct Q5_K : SixBitScales<2816, 5> {
    template <class L> static DEVICE_MEMBER void quads(L line, int k, uint32_t &a, uint32_t &b) { five_bits(line, k, a, b); }
};

struct Q6_K {
    static const int COLUMNS = 256, BYTES = 3360, HEAD = 5, KIND = SPLIT, LINES = 6;
    template <class M> static DEVICE_MEMBER uint32_t head(const uint8_t *unit, int row, int i) {
        return i < 4 ? read_line<M>(unit + i * 832, row, 0) : read_halves<M>(unit + 3328, row, false);
    }
    static DEVICE_MEMBER const uint8_t *lines(const uint8_t *unit, int s) { return unit + s / 2 * 832 + 64 + s % 2 * 384; }
    template <class H> static DEVICE_MEMBER float scale(H head, int) { return half_to_float(head(4) & 0xffff); }
    template <class H> static DEVICE_MEMBER float minimum(H, int) { return 0.0f; }
    template <class H> static DEVICE_MEMBER int scales(H head, int s) {
        const uint32_t w = head(s / 2);
        return s % 2 ? pack_pair(signed_byte(w, 2), signed_byte(w, 3)) : pack_pair(signed_byte(w, 0), signed_byte(w, 1));
    }
    template <class H> static DEVICE_MEMBER int minima(H, int) { return 0; }
    static DEVICE_MEMBER uint32_t six_bits(uint32_t ql, uint32_t qh, int k) {
        const uint32_t low = k & 2 ? high_nibbles(ql) : low_nibbles(ql);
        return less(low | (qh >> 2 * k & 0x03030303u) << 4, 0x20202020u);
    }
    template <class L> static DEVICE_MEMBER void quads(L line, int k, uint32_t &a, uint32_t &b) {
        a = six_bits(line(k & 1), line(2), k), b = six_bits(line(3 + (k & 1)), line(5), k);
    }
};
struct Q3_K {
    static const int COLUMNS = 256, BYTES = 1760, HEAD = 4, KIND = SPLIT, LINES = 3;
    template <class M> static DEVICE_MEMBER uint32_t head(const uint8_t *unit, int row, int i) {
        return i < 3 ? read_line<M>(unit + 1536, row, i) : read_halves<M>(unit + 1728, row, false);
    }
    static DEVICE_MEMBER const uint8_t *lines(const uint8_t *unit, int s) { return unit + s * 192; }
    template <class H> static DEVICE_MEMBER float scale(H head, int) { return half_to_float(head(3) & 0xffff); }
    template <class H> static DEVICE_MEMBER float minimum(H, int) { return 0.0f; }
    template <class H> static DEVICE_MEMBER int scales(H head, int s) {
        const int quarter = s / 2;
        const uint32_t low = (quarter % 2 ? head(1) : head(0)) >> 4 * (quarter / 2) & 0x0f0f0f0fu;
        const uint32_t top = head(2) >> 2 * quarter & 0x03030303u;
        const uint32_t w = less(low | top << 4, 0x20202020u);
        return s % 2 ? pack_pair(signed_byte(w, 2), signed_byte(w, 3)) : pack_pair(signed_byte(w, 0), signed_byte(w, 1));
    }
    template <class H> static DEVICE_MEMBER int minima(H, int) { return 0; }
    template <class L> static DEVICE_MEMBER void quads(L line, int k, uint32_t &a, uint32_t &b) {
        const uint32_t third = line(0);
        a = less((line(1) >> 2 * k & 0x03030303u) | (third >> k & 0x01010101u) << 2, 0x04040404u);
        b = less((line(2) >> 2 * k & 0x03030303u) | (third >> (k + 4) & 0x01010101u) << 2, 0x04040404u);
    }
};
struct Q2_K {
    static const int COLUMNS = 256, BYTES = 1344, HEAD = 5, KIND = SPLIT_MINIMA, LINES = 2;
    template <class M> static DEVICE_MEMBER uint32_t head(const uint8_t *unit, int row, int i) {
        return i < 4 ? read_line<M>(unit + i * 320, row, 0) : read_halves<M>(unit + 1280, row, true);
    }
    static DEVICE_MEMBER const uint8_t *lines(const uint8_t *unit, int s) { return unit + s / 2 * 320 + 64 + s % 2 * 128; }
    template <class H> static DEVICE_MEMBER float scale(H head, int) { return half_to_float(head(4) & 0xffff); }
    // Less dmin, which the activations' scale multiplies.
    template <class H> static DEVICE_MEMBER float minimum(H head, int) { return -half_to_float(head(4) >> 16); }
    template <class H> static DEVICE_MEMBER int scales(H head, int s) {
        const uint32_t w = low_nibbles(head(s / 2)) >> 16 * (s % 2);
        return pack_pair(int(w & 255), int(w >> 8 & 255));
    }
    template <class H> static DEVICE_MEMBER int minima(H head, int s) {
        const uint32_t w = high_nibbles(head(s / 2)) >> 16 * (s % 2);
        return pack_pair(int(w & 255), int(w >> 8 & 255));
    }
    template <class L> static DEVICE_MEMBER void quads(L line, int k, uint32_t &a, uint32_t &b) {
        a = line(0) >> 2 * k & 0x03030303u, b = line(1) >> 2 * k & 0x03030303u;
    }
};
struct IQ4_XS {
    static const int COLUMNS = 256, BYTES = 2176, HEAD = 2, KIND = PLAIN, LINES = 4;
    template <class M> static DEVICE_MEMBER uint32_t head(const uint8_t *unit, int row, int i) {
        return i ? read_line<M>(unit + 64, row, 0) : read_halves<M>(unit, row, true);
    }
    static DEVICE_MEMBER const uint8_t *lines(const uint8_t *unit, int s) { return unit + 128 + s * 256; }
    template <class H> static DEVICE_MEMBER float scale(H head, int s) {
        const uint32_t halves = head(0);
        const int six = int((head(1) >> 4 * s & 15) | (halves >> 16 >> 2 * s & 3) << 4);
        return half_to_float(halves & 0xffff) * float(six - 32);
    }
    template <class H> static DEVICE_MEMBER float minimum(H, int) { return 0.0f; }
    template <class H> static DEVICE_MEMBER int scales(H, int) { return 0; }
    template <class H> static DEVICE_MEMBER int minima(H, int) { return 0; }
    template <class L> static DEVICE_MEMBER void quads(L line, int k, uint32_t &a, uint32_t &b) {
        const uint32_t w = line(k);
        a = iq4_values(low_nibbles(w)), b = iq4_values(high_nibbles(w));
    }
};

// scale0 · sum0 + scale1 · sum1, as packed by `scales`.
DEVICE int join_halves(int scales, int sum0, int sum1) { return (scales << 16 >> 16) * sum0 + (scales >> 16) * sum1; }

// A sum that began at FLOAT_SUM.
DEVICE float whole_sum(int sum) { return float_of(uint32_t(sum)) - 12582912.0f; }
