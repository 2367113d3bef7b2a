<?php

declare(strict_types=1);

// Prints the header that `ffi.preload` reads: php header.php /path/to/libstrata_c.so > strata-preload.h

require __DIR__ . '/autoload.php';

$library = $argv[1] ?? Strata\Library::path();
echo "#define FFI_SCOPE \"STRATA\"\n#define FFI_LIB \"$library\"\n", Strata\Library::declarations();
