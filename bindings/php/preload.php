<?php

declare(strict_types=1);

// For FPM, where `ffi.enable=preload` is the default. In php.ini:
//
//     ffi.preload=/path/to/strata-preload.h        what header.php prints
//     opcache.preload=/path/to/strata/preload.php
//     opcache.preload_user=www-data

foreach (['Error', 'Canceled', 'Library', 'Stream', 'Event', 'Schema', 'Tool', 'Answer', 'Session', 'Model'] as $class) {
    require_once __DIR__ . "/src/$class.php";
}
