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

my $child;

sub fork_child {
    $child = fork // die $!;
    return if $child;
    Functions::watch();
    1 until Functions::tracing(); # by its timer
    leaf(1);
    exit;
}

sub wait_child {
    waitpid $child, 0;
    say "status $?";
}

my @kept = (1, 2, 3);
sub kept : lvalue { $kept[$_[0]] }
sub context { return wantarray ? 'list' : defined wantarray ? 'scalar' : 'none' }
sub changes { $_[0]++ }
sub called { return join ' ', map { $_ // 'undef' } (caller(0))[3, 5], (caller(1))[3] }
sub jumps { goto &called }
sub fact { my ($n) = @_; return $n < 2 ? 1 : $n * fact($n - 1) }
sub by_value { return $a <=> $b }
sub leaves { for my $i (1 .. 3) { return (1, 2, $i) if $i == 2 } }
sub Gone::DESTROY { print 'gone ' }
sub Gone::AUTOLOAD { return "no $Gone::AUTOLOAD" }

# hostile shows what an object was asked for that the program does not ask for.
my $asked;
package Hostile { use overload '""' => sub { $asked++; 'text' } }

sub hostile {
    $asked = 0;
    my $f = bless sub { 1 }, 'Hostile';
    $f->();
    say "hostile $asked";
}

# same says what a debugger must not change.
sub same {
    kept(1) = 5;
    my $n = 1;
    changes($n);
    my $anonymous = sub { return "<@_>" };
    my @list = context();
    my $text = context();
    my @left = leaves();
    my $count = () = leaves();
    { my $gone = bless [], 'Gone'; print $gone->here, ' ' }
    eval { die {code => 7} };
    say join ' | ', "@kept", $n, $anonymous->(1, 2), "@list", $text, called(), jumps(), fact(5),
        join(',', sort by_value 3, 1, 2), "@left $count", $@->{code}, &$anonymous, do { local $_ = 'topic'; &{sub { $_ }} };
}

# replace computes in another program, which has no handler for the signal of a timer.
sub replace { exec $^X, '-e', '$| = 1; 1 for 1 .. 2_000_000; print "done replace\n"; <STDIN>' }

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
    lock => \&lock_file, ready => \&ready, fork => \&fork_child, wait => \&wait_child, same => \&same, hostile => \&hostile, replace => \&replace, idle => \&idle, bench => \&bench);
while (my $line = <STDIN>) {
    my ($command, $argument) = split ' ', $line;
    $commands{$command}->($argument);
    say "done $command";
}
