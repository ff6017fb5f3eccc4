<?php
// Does on command what there are scripts for.

function leaf($n)
{
    return $n + 1;
}

function branch($n)
{
    $sum = 0;
    for ($i = 0; $i < $n; $i++) {
        $sum += leaf($i);
    }
    return $sum;
}

class Example
{
    public static function failing()
    {
        throw new Exception('on purpose');
    }
}

function flow($_)
{
    branch(2);
    try {
        Example::failing();
    } catch (Exception) {
    }
    leaf(3);
}

function down($n) // takes 20 ms at every level
{
    usleep(20_000);
    if ($n > 1) {
        down($n - 1);
    }
}

function recursion($_)
{
    down(5);
}

function spin($ms)
{
    $stop = hrtime(true) + $ms * 1_000_000;
    while (hrtime(true) < $stop);
}

function outer()
{
    for ($i = 0; $i < 4; $i++) {
        spin(50);
    }
    $stop = hrtime(true) + 100_000_000;
    while (hrtime(true) < $stop);
}

function work($_)
{
    outer();
}

function allocate($size)
{
    return str_repeat('x', $size);
}

function memory($_)
{
    $all = [];
    for ($i = 0; $i < 10; $i++) {
        $all[] = allocate(1 << 20);
    }
}

function critical($file)
{
    flock($file, LOCK_EX);
}

function lock($path)
{
    $file = fopen($path, 'r');
    echo "locking\n";
    critical($file);
}

function ready($_) // the probes are the interpreter's own
{
}

function idle($_)
{
}

function used() // microseconds of the processor
{
    $used = getrusage();
    return ($used['ru_utime.tv_sec'] + $used['ru_stime.tv_sec']) * 1_000_000 + $used['ru_utime.tv_usec'] + $used['ru_stime.tv_usec'];
}

function bench($calls)
{
    $start = used();
    for ($i = 0; $i < $calls; $i++) {
        leaf($i);
    }
    echo 'bench ', intdiv((used() - $start) * 1000, (int) $calls), "\n";
}

while (($line = fgets(STDIN)) !== false) {
    [$command, $argument] = explode(' ', trim($line)) + [1 => ''];
    $command($argument);
    echo "done $command\n";
}
