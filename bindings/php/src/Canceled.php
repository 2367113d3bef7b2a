<?php

declare(strict_types=1);

namespace Strata;

/** The request was canceled. */
final class Canceled extends Error
{
}
