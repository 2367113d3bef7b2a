// All kernels as a library for a CPU.
#define EMULATE
#include "adapter.cu"
#include "attention.cu"
#include "experts.cu"
#include "ffn.cu"
#include "float.cu"
#include "mixed.cu"
#include "projection.cu"
#include "residual.cu"

#define TYPE Q4_0
#include "matmul.cu"
#undef TYPE
#define TYPE Q4_1
#include "matmul.cu"
#undef TYPE
#define TYPE Q5_0
#include "matmul.cu"
#undef TYPE
#define TYPE Q5_1
#include "matmul.cu"
#undef TYPE
#define TYPE Q8_0
#include "matmul.cu"
#undef TYPE
#define TYPE Q2_K
#include "matmul.cu"
#undef TYPE
#define TYPE Q3_K
#include "matmul.cu"
#undef TYPE
#define TYPE Q4_K
#include "matmul.cu"
#undef TYPE
#define TYPE Q5_K
#include "matmul.cu"
#undef TYPE
#define TYPE Q6_K
#include "matmul.cu"
#undef TYPE
#define TYPE IQ4_NL
#include "matmul.cu"
#undef TYPE
#define TYPE IQ4_XS
#include "matmul.cu"
#undef TYPE
#define TYPE MXFP4
#include "matmul.cu"
#undef TYPE

// Runs a kernel by its name; 0 if there is none.
extern "C" int strata_emulate(const char *name, unsigned x, unsigned y, unsigned z, unsigned threads, size_t shared, const void *args) {
    for (const auto &entry : emulation::entries())
        if (!strcmp(entry.name, name)) {
            emulation::launch(entry.kernel, {x, y, z}, threads, shared, args);
            return 1;
        }
    return 0;
}
extern "C" int strata_has(const char *name) {
    for (const auto &entry : emulation::entries())
        if (!strcmp(entry.name, name)) return 1;
    return 0;
}
