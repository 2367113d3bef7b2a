<?php

declare(strict_types=1);

// For programs without Composer.

spl_autoload_register(static function (string $class): void {
    $file = __DIR__ . '/src/' . substr($class, strlen('Strata\\')) . '.php';
    if (str_starts_with($class, 'Strata\\') && is_file($file)) {
        require_once $file;
    }
});
