// The quantized types as panels of 16 rows (crates/kernels/src/panel), byte for byte; one of them is TYPE.
//
// All are seen as units of 256 columns: one block, or eight blocks of 32. A unit has 8 groups of 32 columns; a group has
// LINES lines of 64 bytes, 4 bytes for each row, and a unit has HEAD words for each row, of which scales are made.
//
// For a group: acc = fused(scale · dx, Σ, acc), and with minima acc = fused(min, dx · Σx, acc). Where scales belong to 16
// columns (SPLIT), Σ is scale0 · Σ0 + scale1 · Σ1 in integers.

#define Q4_0 0
#define Q4_1 1
#define Q5_0 2
#define Q5_1 3
#define Q8_0 4
#define IQ4_NL 5
#define MXFP4 6
#define Q4_K 7
#define Q5_K 8
#define Q6_K 9
#define Q3_K 10
#define Q2_K 11
#define IQ4_XS 12

#if TYPE <= MXFP4
const int COLUMNS = 32, HEAD = 8;
#else
const int COLUMNS = 256;
#endif
#define SPLIT (TYPE == Q6_K || TYPE == Q3_K || TYPE == Q2_K)
#define MINIMA (TYPE == Q4_1 || TYPE == Q5_1 || TYPE == Q4_K || TYPE == Q5_K)
#define SPLIT_MINIMA (TYPE == Q2_K)

uint low_nibbles(uint w) { return w & 0x0f0f0f0fu; }
uint high_nibbles(uint w) { return w >> 4 & 0x0f0f0f0fu; }
// Takes `n` (in every byte) from bytes of 0 to 127.
uint less(uint w, uint n) { return ((w | 0x80808080u) - n) ^ 0x80808080u; }
int signed_byte(uint w, int k) { return int(w << (24 - 8 * k)) >> 24; }
uint pack_pair(int low, int high) { return (uint(low) & 0xffffu) | uint(high) << 16; }
int low_half(uint pair) { return int(pair << 16) >> 16; }
int high_half(uint pair) { return int(pair) >> 16; }
// scale0 · sum0 + scale1 · sum1.
int join_halves(uint scales, int sum0, int sum1) { return low_half(scales) * sum0 + high_half(scales) * sum1; }

// The table's entries for four codes below 16.
uint look_up(uint codes, uint t0, uint t1, uint t2, uint t3) {
    uint found = 0u;
    UNROLL for (int k = 0; k < 4; k++) {
        const uint code = codes >> 8 * k & 15u;
        const uint word = code < 8u ? (code < 4u ? t0 : t1) : (code < 12u ? t2 : t3);
        found |= (word >> 8 * (code & 3u) & 255u) << 8 * k;
    }
    return found;
}
uint iq4_values(uint codes) { return look_up(codes, 0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u); }
uint e2m1_values(uint codes) { return look_up(codes, 0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu); }

// What a thread has read: a row's words of a unit, and of a group.
uint heads[8];
uint lines[8];

uint read_line(uint64_t base, int row, int line) { return read_word(base, line * 16 + row); }
uint read_halves(uint64_t base, int row, bool second) {
    const uint d = read_half(base, row);
    return second ? d | read_half(base, 16 + row) << 16 : d;
}

// Nibbles with a fifth bit in the line before them.
void five_bits(int k, out uint a, out uint b) {
    const uint w = lines[1 + k], fifth = lines[0];
    a = low_nibbles(w) | (fifth << (4 - k) & 0x10101010u);
    b = high_nibbles(w) | (fifth >> k & 0x10101010u);
}
void nibbles(int k, out uint a, out uint b) { a = low_nibbles(lines[k]), b = high_nibbles(lines[k]); }

#if TYPE == Q4_0 || TYPE == IQ4_NL
const int BYTES = 288, LINES = 4;
#elif TYPE == Q4_1
const int BYTES = 320, LINES = 4;
#elif TYPE == Q5_0
const int BYTES = 352, LINES = 5;
#elif TYPE == Q5_1
const int BYTES = 384, LINES = 5;
#elif TYPE == Q8_0
const int BYTES = 544, LINES = 8;
#elif TYPE == MXFP4
const int BYTES = 272, LINES = 4;
#elif TYPE == Q4_K
const int BYTES = 2304, LINES = 4, HEAD = 4;
#elif TYPE == Q5_K
const int BYTES = 2816, LINES = 5, HEAD = 4;
#elif TYPE == Q6_K
const int BYTES = 3360, LINES = 6, HEAD = 5;
#elif TYPE == Q3_K
const int BYTES = 1760, LINES = 3, HEAD = 4;
#elif TYPE == Q2_K
const int BYTES = 1344, LINES = 2, HEAD = 5;
#elif TYPE == IQ4_XS
const int BYTES = 2176, LINES = 4, HEAD = 2;
#endif

uint read_head(uint64_t unit, int row, int i) {
#if TYPE == MXFP4
    return read_half(unit + uint64_t(i * BYTES), row / 2) >> 8 * (row % 2) & 255u;
#elif TYPE <= MXFP4
    return read_halves(unit + uint64_t(i * BYTES), row, MINIMA);
#elif TYPE == Q4_K || TYPE == Q5_K
    return i != 0 ? read_line(unit + 64ul, row, i - 1) : read_halves(unit, row, true);
#elif TYPE == Q6_K
    return i < 4 ? read_line(unit + uint64_t(i * 832), row, 0) : read_halves(unit + 3328ul, row, false);
#elif TYPE == Q3_K
    return i < 3 ? read_line(unit + 1536ul, row, i) : read_halves(unit + 1728ul, row, false);
#elif TYPE == Q2_K
    return i < 4 ? read_line(unit + uint64_t(i * 320), row, 0) : read_halves(unit + 1280ul, row, true);
#else
    return i != 0 ? read_line(unit + 64ul, row, 0) : read_halves(unit, row, true);
#endif
}

uint64_t lines_at(uint64_t unit, int s) {
#if TYPE == MXFP4
    return unit + uint64_t(s * BYTES + 16);
#elif TYPE <= MXFP4
    return unit + uint64_t(s * BYTES + (MINIMA ? 64 : 32));
#elif TYPE == Q4_K || TYPE == Q5_K
    return unit + uint64_t(256 + s * LINES * 64);
#elif TYPE == Q6_K
    return unit + uint64_t(s / 2 * 832 + 64 + s % 2 * 384);
#elif TYPE == Q3_K
    return unit + uint64_t(s * 192);
#elif TYPE == Q2_K
    return unit + uint64_t(s / 2 * 320 + 64 + s % 2 * 128);
#else
    return unit + uint64_t(128 + s * 256);
#endif
}

// The six bits of group s, of which the first four groups' are whole in `own`.
float six_bits(uint own, uint both, int shift, int s) {
    const uint w = s < 4 ? own & 0x3f3f3f3fu : (both >> shift & 0x0f0f0f0fu) | (own >> 2 & 0x30303030u);
    return float(w >> 8 * (s % 4) & 255u);
}

float scale(int s) {
#if TYPE == MXFP4
    const int e = int(heads[s]);
    return float_of(uint(max(int(uint(e - 1) << 23), (e + 1) << 21)));
#elif TYPE <= MXFP4
    return half_to_float(heads[s] & 0xffffu);
#elif TYPE == Q4_K || TYPE == Q5_K
    return half_to_float(heads[0] & 0xffffu) * six_bits(heads[1], heads[3], 0, s);
#elif TYPE == IQ4_XS
    const uint halves = heads[0];
    const int six = int((heads[1] >> 4 * s & 15u) | (halves >> 16 >> 2 * s & 3u) << 4);
    return half_to_float(halves & 0xffffu) * float(six - 32);
#else
    return half_to_float(heads[HEAD - 1] & 0xffffu);
#endif
}

float minimum(int s) {
#if TYPE == Q4_1 || TYPE == Q5_1
    return half_to_float(heads[s] >> 16);
#elif MINIMA
    return -(half_to_float(heads[0] >> 16) * six_bits(heads[2], heads[3], 4, s));
#elif SPLIT_MINIMA
    return -half_to_float(heads[4] >> 16);
#else
    return 0.0;
#endif
}

// The scales of a group's halves.
uint scales(int s) {
#if TYPE == Q6_K
    const uint w = heads[s / 2];
    return s % 2 != 0 ? pack_pair(signed_byte(w, 2), signed_byte(w, 3)) : pack_pair(signed_byte(w, 0), signed_byte(w, 1));
#elif TYPE == Q3_K
    const int quarter = s / 2;
    const uint low = (quarter % 2 != 0 ? heads[1] : heads[0]) >> 4 * (quarter / 2) & 0x0f0f0f0fu;
    const uint top = heads[2] >> 2 * quarter & 0x03030303u;
    const uint w = less(low | top << 4, 0x20202020u);
    return s % 2 != 0 ? pack_pair(signed_byte(w, 2), signed_byte(w, 3)) : pack_pair(signed_byte(w, 0), signed_byte(w, 1));
#elif TYPE == Q2_K
    const uint w = low_nibbles(heads[s / 2]) >> 16 * (s % 2);
    return pack_pair(int(w & 255u), int(w >> 8 & 255u));
#else
    return 0u;
#endif
}
uint minima(int s) {
#if SPLIT_MINIMA
    const uint w = high_nibbles(heads[s / 2]) >> 16 * (s % 2);
    return pack_pair(int(w & 255u), int(w >> 8 & 255u));
#else
    return 0u;
#endif
}

#if TYPE == Q6_K
uint six_bit_values(uint ql, uint qh, int k) {
    const uint low = (k & 2) != 0 ? high_nibbles(ql) : low_nibbles(ql);
    return less(low | (qh >> 2 * k & 0x03030303u) << 4, 0x20202020u);
}
#endif

// Columns 4k to 4k + 3 of the group's halves, as signed bytes.
void quads(int k, out uint a, out uint b) {
#if TYPE == Q4_0
    nibbles(k, a, b);
    a = less(a, 0x08080808u), b = less(b, 0x08080808u);
#elif TYPE == Q4_1 || TYPE == Q4_K
    nibbles(k, a, b);
#elif TYPE == Q5_0
    five_bits(k, a, b);
    a = less(a, 0x10101010u), b = less(b, 0x10101010u);
#elif TYPE == Q5_1 || TYPE == Q5_K
    five_bits(k, a, b);
#elif TYPE == Q8_0
    a = lines[k], b = lines[k + 4];
#elif TYPE == IQ4_NL || TYPE == IQ4_XS
    nibbles(k, a, b);
    a = iq4_values(a), b = iq4_values(b);
#elif TYPE == MXFP4
    nibbles(k, a, b);
    a = e2m1_values(a), b = e2m1_values(b);
#elif TYPE == Q6_K
    a = six_bit_values(lines[k & 1], lines[2], k), b = six_bit_values(lines[3 + (k & 1)], lines[5], k);
#elif TYPE == Q3_K
    const uint third = lines[0];
    a = less((lines[1] >> 2 * k & 0x03030303u) | (third >> k & 0x01010101u) << 2, 0x04040404u);
    b = less((lines[2] >> 2 * k & 0x03030303u) | (third >> (k + 4) & 0x01010101u) << 2, 0x04040404u);
#elif TYPE == Q2_K
    a = lines[0] >> 2 * k & 0x03030303u, b = lines[1] >> 2 * k & 0x03030303u;
#endif
}
