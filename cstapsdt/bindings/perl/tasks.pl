#!/usr/bin/env perl
# Works on tasks, and fires a probe after each.
#
#     make -C cstapsdt
#     LD_LIBRARY_PATH=cstapsdt/out perl cstapsdt/bindings/perl/tasks.pl
#
# In another terminal, as root:
#
#     bpftrace -p PID -e 'usdt:*:tasks:task__done { printf("%s %d us\n", str(arg0), arg1); }'

use v5.20;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Stapsdt;
use Time::HiRes qw(sleep time);

$| = 1;
my $tasks = Stapsdt->new('tasks');
my $done = $tasks->probe('task__done', task => 'string', microseconds => 'uint64', result => 'int32');
eval { $tasks->load } or print "no probes: $@"; # and continue
print "process $$ works\n";
for (my $number = 1;; $number++) {
    my $start = time;
    sleep 0.05;
    $done->fire("task $number", int((time - $start) * 1e6), -$number);
}
