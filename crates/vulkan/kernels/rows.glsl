// Rows of floats by a whole block: sums in 16 lanes, norms, and rows quantized to 8 bits.
//
// A thread owns four values in a row of every tile: only it reads and writes them in memory, and others see them in shared
// memory. What the row holds is what the kernel's `row_value` says.

const int QUADS = THREADS, TILE = 4 * QUADS;
shared float tile[TILE];
shared uint tops[QUADS];
shared int quad_sums[QUADS];

float row_value(int i);


// Joins 16 lanes: +8, +4, +2, +1.
float join_lanes() {
    float l[8];
    UNROLL for (int i = 0; i < 8; i++) l[i] = tile[i] + tile[i + 8];
    UNROLL for (int i = 0; i < 4; i++) l[i] = l[i] + l[i + 4];
    return (l[0] + l[2]) + (l[1] + l[3]);
}

// The sum over a row, or of the squares of its distances from `center`: element i in lane i modulo 16, in order.
float lane_sum(int n, bool squares, float center) {
    const int whole = (n + 15) / 16 * 16;
    float sum = 0.0;
    for (int start = 0; start < n; start += TILE) {
        barrier();
        for (int k = 0; k < 4; k++) {
            const int i = start + 4 * tid + k;
            tile[4 * tid + k] = i < n ? row_value(i) : center;
        }
        barrier();
        if (tid < 16) {
            const int count = min(TILE, whole - start);
            for (int j = tid; j < count; j += 16) {
                const float x = tile[j];
                if (squares) {
                    const float d = x - center;
                    sum = fused(d, d, sum);
                } else sum = sum + x;
            }
        }
    }
    barrier();
    if (tid < 16) tile[tid] = sum;
    barrier();
    sum = join_lanes();
    barrier();
    return sum;
}

// What a norm subtracts and multiplies by.
struct NormFactors {
    float mean, inverse;
};
NormFactors norm_factors(int n, bool rms, float epsilon) {
    const float count = float_from(n);
    float mean = 0.0;
    if (!rms) mean = divide(lane_sum(n, false, 0.0), count);
    const float variance = divide(lane_sum(n, true, mean), count);
    return NormFactors(mean, divide(1.0, square_root(variance + epsilon)));
}
float normed(NormFactors f, bool rms, float x, Norm norm, int i) {
    const float weight = read_float(norm.weight, i);
    if (rms) return x * f.inverse * weight;
    float y = (x - f.mean) * f.inverse;
    y = y * weight;
    return norm.bias != 0ul ? y + read_float(norm.bias, i) : y;
}

// ---- Quantized rows: units of 256 values, 8 groups of 32 with a scale each. Groups past the row's end are zero.

const int UNIT = 352; // bytes: 256 values, 8 scales, 8 scaled sums, 8 pairs of sums of halves
int units_of(int columns) { return (columns + 255) / 256; }

// Eight threads have a group of 32 values, four each; those of a group that is not `real` store nothing. All threads call it.
void encode_quads(float v[4], uint64_t row, int group, bool real) {
    uint top = 0u;
    UNROLL for (int k = 0; k < 4; k++) top = max(top, bits_of(v[k]) & 0x7fffffffu);
    barrier();
    tops[tid] = top;
    barrier();
    const int first = tid / 8 * 8;
    UNROLL for (int k = 0; k < 8; k++) top = max(top, tops[first + k]);
    const float amax = float_of(top), id = divide(127.0, amax);
    float d = 0.0;
    int q[4] = {0, 0, 0, 0};
    if (top >= 0x7f800000u) d = float_of(0x7fc00000u);
    else if (bits_of(id) != 0x7f800000u) {
        UNROLL for (int k = 0; k < 4; k++) q[k] = rounded(v[k] * id);
        d = divide(amax, 127.0);
    }
    quad_sums[tid] = q[0] + q[1] + q[2] + q[3];
    barrier();
    if (!real) return;
    const uint64_t unit = row_at(row, group / 8, UNIT);
    const uint word = (uint(q[0]) & 255u) | (uint(q[1]) & 255u) << 8 | (uint(q[2]) & 255u) << 16 | uint(q[3]) << 24;
    write_word(unit, group % 8 * 8 + tid % 8, word);
    if (tid % 8 == 0) {
        int low = 0, high = 0;
        UNROLL for (int k = 0; k < 4; k++) low += quad_sums[first + k], high += quad_sums[first + 4 + k];
        write_float(unit + 256ul, group % 8, d);
        write_float(unit + 288ul, group % 8, d * float_from(low + high));
        write_word(unit + 320ul, group % 8, (uint(low) & 0xffffu) | uint(high) << 16);
    }
}

// The tiles of a row from `first` on, `step` apart, padded to whole units.
void encode_tiles(int columns, uint64_t row, int first, int step) {
    const int groups = units_of(columns) * 8;
    for (int start = first * TILE; start < groups * 32; start += step * TILE) {
        float v[4];
        UNROLL for (int k = 0; k < 4; k++) {
            const int i = start + 4 * tid + k;
            v[k] = i < columns ? row_value(i) : 0.0;
        }
        const int group = start / 32 + tid / 8;
        encode_quads(v, row, group, group < groups);
    }
}
void encode_row(int columns, uint64_t row) { encode_tiles(columns, row, 0, 1); }
