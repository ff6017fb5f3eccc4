package Functions;

# Function probes for programs in Perl, with the names and arguments of the interpreter's own:
#
#     perl:sub__entry(sub, file, line, pkg)
#     perl:sub__return(sub, file, line, pkg)
#
# Perl has its own only if it was built with -Dusedtrace, which Debian's is not. To run a
# program with these:
#
#     LD_LIBRARY_PATH=cstapsdt/out perl -Icstapsdt/bindings/perl -MFunctions PROGRAM
#
# The file and the line are those of the sub's first statement. An exception that leaves a sub
# is a return. What was compiled before this module is not included, nor are subs in C and those
# with the attribute lvalue.
#
# The module has perl compile calls so that a debugger can take them, and is one only while a
# tracer is attached: there is no DB::sub otherwise. Every 10 ms of the processor's time it
# asks for a tracer, between two operations of the program. A timer of the clock would
# interrupt what the program waits for. Functions::ask() asks at once, for a program that
# hardly computes. A program with a handler of its own for SIGVTALRM must call that, and a
# child that was forked calls Functions::watch(), because it has no timer.

use v5.20;
use warnings;
use B ();
use Config;
use FFI::Platypus 2.00;
use Scalar::Util ();
use Stapsdt;

use constant MOST => 10_000; # subs whose places are kept
use constant INTERVAL => 10_000_000; # nanoseconds

# The time of this process outside of the kernel: CPUCLOCK_VIRT in the kernel's
# include/linux/posix-timers.h. Signals by another clock could interrupt a system call.
use constant CLOCK => -7;

# A timer that ends at an exec, as that of setitimer does not: its signal would kill the program.
my $ffi = FFI::Platypus->new(api => 2, lib => 'libc.so.6');
$ffi->attach(timer_create => ['int', 'string', 'opaque*'] => 'int');
$ffi->attach(timer_settime => ['opaque', 'int', 'string', 'opaque'] => 'int');

my ($timer, $owner); # the timer, and the process that has it

my ($enter, $leave);
our $firing = 0; # what the probes call is not fired
my %places; # by the sub's name or address: what _place returns

# ask asks whether a tracer is attached, and reports it.
sub ask {
    my $traced = $enter->enabled || $leave->enabled;
    no warnings qw(once redefine);
    if ($traced && !tracing()) {
        *DB::sub = \&_hook;
    } elsif (!$traced && tracing()) {
        my $name = \$DB::sub; # which perl restores when what it runs now returns
        undef *DB::sub;
        *DB::sub = $name;
        %places = ();
    }
    return $traced;
}

# tracing reports whether the hook is installed.
sub tracing { defined &DB::sub }

# _place returns the arguments of a sub's events, and what they refer to. The sub is a name or
# a reference. It returns a false value for a sub in C.
sub _place {
    my ($sub) = @_;
    no strict 'refs';
    my $cv = B::svref_2object(ref $sub ? $sub : \&$sub);
    my ($start, $gv) = ($cv->START, $cv->GV);
    return 0 if $cv->XSUB;
    my ($file, $line) = $start->isa('B::COP') ? ($start->file, $start->line) : ('', 0);
    my ($package, $name) = $gv->isa('B::GV') ? ($gv->STASH->NAME, $gv->NAME) : ('', '__ANON__');
    my $place = [undef, $name, $file, $package];
    $place->[0] = pack 'ppqp', $place->[1], $place->[2], $line, $place->[3];
    return $place;
}

# _hook is what perl calls in the place of a sub, whose name or reference is in $DB::sub. It
# has the sub's arguments. It fires the probes by the library's function, because fire, which
# checks every value, takes several times as long.
sub _hook {
    my $sub = $DB::sub;
    no strict 'refs';
    # A reference may be to an object, whose class may have a text for it.
    my $key = ref $sub ? Scalar::Util::refaddr($sub) : $sub;
    return &$sub if $firing || index($key, 'Functions::') == 0; # perl calls a DESTROY so too
    local $firing = 1;
    %places = () if keys %places >= MOST; # a program may make subs without end
    my $place = $places{$key};
    # Not //=: ask may empty the hash in a signal handler meanwhile.
    $place = $places{$key} = _place($sub) unless defined $place;
    my $left;
    if ($place) {
        Stapsdt::probeFireV($enter->{probe}, $place->[0]);
        $left = bless [$place], 'Functions::Left';
    }
    $firing = 0;
    return &$sub;
}

# A sub whose result can be assigned to is called, and not fired.
sub DB::lsub : lvalue {
    no strict 'refs';
    &$DB::sub;
}

sub Functions::Left::DESTROY {
    local $firing = 1;
    Stapsdt::probeFireV($leave->{probe}, $_[0][0][0]) if $leave;
}

BEGIN {
    my $perl = Stapsdt->new('perl');
    my @arguments = (sub => 'string', file => 'string', line => 'int32', pkg => 'string');
    $enter = $perl->probe('sub__entry', @arguments);
    $leave = $perl->probe('sub__return', @arguments);
    $perl->load;
}

# watch begins to ask for tracers.
sub watch {
    return if ($owner // 0) == $$;
    my $signal = (grep { (split ' ', $Config{sig_name})[$_] eq 'VTALRM' } 1 .. 64)[0];
    my $event = pack 'q l l x48', 0, $signal, 0; # struct sigevent with SIGEV_SIGNAL
    timer_create(CLOCK, $event, \$timer) == 0 or die "timer_create: $!";
    $SIG{VTALRM} = \&ask;
    $owner = $$;
    _every(INTERVAL);
}

# _every sets the interval of the timer. 0 stops it.
sub _every { timer_settime($timer, 0, pack('q4', 0, $_[0], 0, $_[0]), undef) }

# The end of perl leaves no handler for a signal.
END { _every(0) if ($owner // 0) == $$ }

sub import {
    watch();
    $^P |= 0x01; # calls that are compiled from here on ask for DB::sub
}

1;
