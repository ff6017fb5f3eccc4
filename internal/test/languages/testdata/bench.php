<?php

// Measures calls on command: "fire 1000" prints the nanoseconds of each of 1000.

declare(strict_types=1);

use Stapsdt\Provider;
use Stapsdt\Type;

require 'Stapsdt.php';

$app = new Provider('languages');
$probe = $app->probe('bench', ['path' => Type::String, 'number' => Type::Int32]);
$app->load();

function nothing(string $text, int $number): void
{
}

$measures = [
    'empty' => function (int $calls): void {
        for ($i = 0; $i < $calls; $i++) {
            nothing('/index.html', $i);
        }
    },
    'enabled' => function (int $calls) use ($probe): void {
        for ($i = 0; $i < $calls; $i++) {
            $probe->enabled();
        }
    },
    'fire' => function (int $calls) use ($probe): void {
        for ($i = 0; $i < $calls; $i++) {
            $probe->fire('/index.html', $i);
        }
    },
];

echo "ready\n";
while (($line = fgets(STDIN)) !== false) {
    [$name, $calls] = explode(' ', trim($line));
    $start = hrtime(true);
    $measures[$name]((int) $calls);
    echo 'took ', (hrtime(true) - $start) / (int) $calls, "\n";
}
