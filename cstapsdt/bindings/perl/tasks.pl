#!/usr/bin/env perl
# Works on tasks, and fires a probe after each: see README.md.

use v5.20;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Stapsdt;
use Time::HiRes qw(sleep time);

$| = 1;
my $tasks = Stapsdt->new('tasks');
my $done = $tasks->probe(
    'task__done', task => 'string', microseconds => 'uint64', result => 'int32');
eval { $tasks->load } or print "no probes: $@"; # and continue
print "process $$ works\n";
for (my $number = 1;; $number++) {
    my $start = time;
    sleep 0.05;
    $done->fire("task $number", int((time - $start) * 1e6), -$number);
}
