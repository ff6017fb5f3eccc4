<?php

declare(strict_types=1);

use Stapsdt\Provider;
use Stapsdt\Type;

require 'Stapsdt.php';

function refused(string $name, callable $call): void
{
    try {
        $call();
        echo "$name accepted\n";
    } catch (Throwable $error) {
        echo "$name ", get_class($error), "\n";
    }
}

$app = new Provider('languages');
$values = $app->probe('values', [
    'text' => Type::String, 'byte' => Type::Uint8, 'tiny' => Type::Int8, 'number' => Type::Int32, 'big' => Type::Uint64, 'low' => Type::Int64,
]);
$texts = $app->probe('texts', ['left' => Type::String, 'right' => Type::String]);
$none = $app->probe('none');
refused('nameless', fn() => new Provider(''));
refused('many', fn() => $app->probe('many', array_fill_keys(array_map(fn($i) => "a$i", range(0, 12)), Type::Uint8)));
$values->fire('not loaded', 1, 1, 1, 1, 1);
$app->load();

function wrong(): void
{
    global $app, $values, $texts;
    refused('late', fn() => $app->probe('late'));
    refused('count', fn() => $texts->fire('one'));
    refused('text', fn() => $texts->fire('one', 2));
    refused('number', fn() => $values->fire('one', '2', 3, 4, 5, 6));
    refused('large', fn() => $values->fire('one', 256, 3, 4, 5, 6));
    refused('small', fn() => $values->fire('one', 2, -129, 4, 5, 6));
    refused('fraction', fn() => $values->fire('one', 2, 3.5, 4, 5, 6));
}

function enabled(): void
{
    global $values;
    echo 'enabled ', json_encode($values->enabled()), "\n";
}

enabled();
wrong();
echo "ready\n";
fgets(STDIN);
enabled();
wrong();
$values->fire('grüße', 200, -100, -2000000000, 9007199254740993, -9007199254740993);
$none->fire();
for ($i = 0; $i < 50; $i++) {
    $texts->fire(str_repeat('left ', 10) . $i, str_repeat('right ', 8) . $i);
}
echo "fired\n";
fgets(STDIN);
enabled();
$app->unload();
$none->fire();
$app->load();
if ($argv[1] === 'exit') {
    exit(3);
}
if ($argv[1] === 'throw') {
    throw new Exception('thrown');
}
