// The header in C++11, with every warning there is.
#include "strata.h"
#include <cstdio>

int main() {
    std::printf("%u\n", static_cast<unsigned>(strata_abi_version()));
    return strata_abi_version() == STRATA_ABI_VERSION ? 0 : 1;
}
