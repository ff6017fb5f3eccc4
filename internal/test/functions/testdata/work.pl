# Does on command what there are scripts for.

use v5.20;
use warnings;
use Fcntl qw(LOCK_EX);
use Time::HiRes qw(sleep clock_gettime CLOCK_PROCESS_CPUTIME_ID);

sub leaf { return $_[0] + 1 }

sub branch {
    my ($n) = @_;
    my $sum = 0;
    for my $i (1 .. $n) {
        $sum += leaf($i);
    }
    return $sum;
}

sub failing { die "on purpose\n" }

sub flow {
    branch(2);
    eval { failing() };
    my @list = leaf(3);
    return;
}

sub down { # takes 20 ms at every level
    my ($n) = @_;
    select undef, undef, undef, 0.02;
    down($n - 1) if $n > 1;
}

sub recursion { down(5) }

sub spin {
    my $stop = clock_gettime(CLOCK_PROCESS_CPUTIME_ID) + $_[0] / 1000;
    1 while clock_gettime(CLOCK_PROCESS_CPUTIME_ID) < $stop;
}

sub outer {
    spin(50) for 1 .. 4;
    my $stop = clock_gettime(CLOCK_PROCESS_CPUTIME_ID) + 0.1;
    1 while clock_gettime(CLOCK_PROCESS_CPUTIME_ID) < $stop;
}

sub work { outer() }

sub allocate { return \('x' x $_[0]) }

sub memory { my $size = 1 << 20; my @all = map { allocate($size) } 1 .. 10 }

sub critical { flock $_[0], LOCK_EX or die $! }

sub lock_file {
    open my $file, '<', $_[0] or die $!;
    say 'locking';
    critical($file);
}

sub ready {
    until (Functions::tracing()) { sleep 0.005; Functions::ask() }
}

sub idle {
    while (Functions::tracing()) { sleep 0.005; Functions::ask() }
}

sub bench {
    my ($calls) = @_;
    my $start = clock_gettime(CLOCK_PROCESS_CPUTIME_ID);
    for my $i (1 .. $calls) {
        leaf($i);
    }
    say 'bench ', int((clock_gettime(CLOCK_PROCESS_CPUTIME_ID) - $start) / $calls * 1e9);
}

$| = 1;
my %commands = (flow => \&flow, recursion => \&recursion, work => \&work, memory => \&memory,
    lock => \&lock_file, ready => \&ready, idle => \&idle, bench => \&bench);
while (my $line = <STDIN>) {
    my ($command, $argument) = split ' ', $line;
    $commands{$command}->($argument);
    say "done $command";
}
