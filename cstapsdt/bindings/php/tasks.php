#!/usr/bin/env php
<?php

// Works on tasks, and fires a probe after each: see README.md.

declare(strict_types=1);

use Stapsdt\Provider;
use Stapsdt\Type;

require __DIR__ . '/Stapsdt.php';

$tasks = new Provider('tasks');
$done = $tasks->probe('task__done',
    ['task' => Type::String, 'microseconds' => Type::Uint64, 'result' => Type::Int32]);
try {
    $tasks->load();
} catch (Stapsdt\Error $error) {
    echo "no probes: {$error->getMessage()}\n"; // and continue
}
echo 'process ' . getmypid() . " works\n";
for ($number = 1;; $number++) {
    $start = hrtime(true);
    usleep(50_000);
    $done->fire("task $number", intdiv(hrtime(true) - $start, 1000), -$number);
}
