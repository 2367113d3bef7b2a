/* pkg-config says where it is. */
#include <strata.h>
